-- The clock, its last jump that was noted, and whether recover_lost_workers() would find something to do.
select
    (extract(epoch from clock.now) * 1000000)::bigint,
    coalesce((select max(jump.id) from treadle.clock_jumps as jump), 0),
    exists (
        select
        from treadle.workers as worker
        where worker.seen_at > clock.now + interval '1 second'
           or worker.lost_at is null and worker.seen_at < treadle.clock_before(worker.lease, clock.now)
           or worker.lost_at < clock.now - interval '1 day'
           or worker.lost_at is not null and exists (
                select
                from treadle.jobs as job
                where job.worker_id = worker.worker_id
                  and job.status in ('claimed', 'running')
              )
    )
from (select clock_timestamp() as now offset 0) as clock
