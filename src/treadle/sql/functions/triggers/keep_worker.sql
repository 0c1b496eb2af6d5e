-- Trigger: keeps the row of a worker with a lease while it has jobs: recovery needs it to know that the worker had a
-- lease, and when it was last renewed.
create or replace function treadle.keep_worker() returns trigger
language plpgsql
as $$
begin
    if exists (
        select
        from treadle.jobs as job
        where job.worker_id = old.worker_id
          and job.status in ('claimed', 'running')
    ) then
        raise notice 'the row of worker % is kept: the worker has jobs', old.worker_id
            using hint = 'If it is gone, its jobs are recovered when its lease has run out, or by recover_worker().';
        return null;
    end if;
    return old;
end
$$;

create or replace trigger keep_worker
    before delete on treadle.workers
    for each row
    when (old.lease is not null)
    execute function treadle.keep_worker();
