select exists (
    select
    from treadle.workers as worker
    where (worker.lost_at is not null or worker.seen_at < treadle.clock_before(worker.lease, clock_timestamp()))
      and exists (
            select
            from treadle.jobs as job
            where job.worker_id = worker.worker_id
              and job.status in ('claimed', 'running')
      )
)
