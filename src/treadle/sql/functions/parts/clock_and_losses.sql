-- For workers, which compare the server's clock with their own: one statement for both questions.
create or replace function treadle.clock_and_losses(out clock bigint, out jumps bigint, out losses boolean)
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    clock := extract(epoch from v_now) * 1000000;
    jumps := coalesce((select max(jump.id) from treadle.clock_jumps as jump), 0);
    losses := exists (
        select
        from treadle.workers as worker
        where worker.seen_at > v_now + interval '1 second'
           or worker.lost_at is null and worker.seen_at < treadle.clock_before(worker.lease, v_now)
           or worker.lost_at < v_now - interval '1 day'
           or worker.lost_at is not null and exists (
                select
                from treadle.jobs as job
                where job.worker_id = worker.worker_id
                  and job.status in ('claimed', 'running')
              )
    );
end
$$;

comment on function treadle.clock_and_losses()
    is 'The clock in microseconds, its last jump that was noted, and whether recover_lost_workers() would find something to do.';
