-- The live workers, and those that were lost within the last hour.
select
    worker.worker_id, worker.host, worker.pid, worker.version, worker.job_types, worker.queues,
    coalesce(changed.concurrency, worker.concurrency),
    worker.started_at, worker.seen_at,
    -- A worker without a lease does not register how often it sends heartbeats.
    worker.lost_at is null and worker.seen_at > clock_timestamp() - coalesce(worker.lease, interval '1 minute'),
    worker.lost_at,
    claimed.jobs,
    worker.concurrency
from treadle.workers as worker
left join treadle.worker_concurrency as changed on changed.worker_id = worker.worker_id
cross join lateral (
    select count(*) as jobs
    from (
        select
        from treadle.jobs as job
        where job.worker_id = worker.worker_id
          and job.status in ('claimed', 'running')
        limit 10000
    ) as claimed
) as claimed
where coalesce(worker.lost_at, worker.seen_at) > clock_timestamp() - interval '1 hour'
order by worker.lost_at is not null, worker.worker_id
limit 1000
