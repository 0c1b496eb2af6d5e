-- The live workers, those that were lost within some hours, and those that still have jobs. The newest losses first.
select
    worker.worker_id, worker.host, worker.pid, worker.version, worker.job_types, worker.queues,
    coalesce(changed.concurrency, worker.concurrency),
    worker.started_at, worker.seen_at,
    -- A worker without a lease does not register how often it sends heartbeats.
    worker.lost_at is null and worker.seen_at > clock_timestamp() - coalesce(worker.lease, interval '1 minute'),
    worker.lost_at,
    claimed.jobs,
    worker.concurrency,
    claimed.running, claimed.in_children,
    coalesce(cardinality(worker.process_types), 0) > 0, coalesce(worker.children, 0),
    extract(epoch from worker.lease)::float8,
    worker.stuck_since, worker.stuck_kind, worker.stuck_job, worker.stuck_job_type, worker.stuck_stack,
    worker.lost_because, worker.jobs_given_back, worker.jobs_failed, clock_timestamp(), worker.stopped_children,
    worker.asleep_at
from treadle.workers as worker
left join treadle.worker_concurrency as changed on changed.worker_id = worker.worker_id
cross join lateral (
    select
        count(*) as jobs,
        count(*) filter (where claimed.status = 'running') as running,
        -- A job that ran in a process that died runs in a child process, too.
        count(*) filter (where claimed.crashes > 0 or claimed.job_type = any (worker.process_types)) as in_children
    from (
        select job.status, job.crashes, job.job_type
        from treadle.jobs as job
        where job.worker_id = worker.worker_id
          and job.status in ('claimed', 'running')
          -- Clients without a lease are never deleted, and there may be many.
          and (worker.lease is not null or worker.seen_at > clock_timestamp() - make_interval(hours => %(hours)s))
        limit 10000
    ) as claimed
) as claimed
where coalesce(worker.lost_at, worker.seen_at) > clock_timestamp() - make_interval(hours => %(hours)s)
   or worker.lost_at is null and worker.asleep_at is not null and worker.seen_at > clock_timestamp() - worker.lease
   or worker.lease is not null and claimed.jobs > 0
order by worker.lost_at is not null, worker.lost_at desc, worker.worker_id
limit 1000
