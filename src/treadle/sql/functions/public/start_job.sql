-- Marks a claimed job as running. As in every function that writes for a worker: with p_lease the write is fenced, and
-- false means that the claim is lost and nothing changed. Without p_lease, the job is changed whichever worker has
-- claimed it.
create or replace function treadle.start_job(
    p_id uuid,
    p_lease bigint default null,
    p_worker_id varchar default null
) returns boolean
language plpgsql
as $$
begin
    update treadle.jobs as job
    set status = 'running',
        started_at = clock_timestamp(),
        progress = 0,
        current_stage = null
    where job.id = p_id
      and job.status in ('claimed', 'running')
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id);
    return found;
end
$$;
