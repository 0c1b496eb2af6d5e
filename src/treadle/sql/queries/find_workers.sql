select
    worker.worker_id,
    worker.host,
    worker.pid,
    extract(epoch from clock_timestamp() - worker.started_at)::double precision,
    extract(epoch from clock_timestamp() - worker.seen_at)::double precision,
    extract(epoch from worker.lease)::double precision,
    extract(epoch from clock_timestamp() - worker.lost_at)::double precision,
    worker.job_types::text[],
    worker.queues::text[],
    worker.version,
    claimed.id is not null,
    worker.started_at < (select max(function.applied_at) from treadle.functions as function),
    coalesce(changed.concurrency, worker.concurrency),
    worker.stuck_since, worker.stuck_kind, worker.stuck_job, worker.stuck_job_type, left(worker.stuck_stack, 2000),
    clock_timestamp(),
    worker.stopped_children,
    worker.handlers
from treadle.workers as worker
left join treadle.worker_concurrency as changed on changed.worker_id = worker.worker_id
-- Not with exists, for which the planner would read all claimed jobs.
left join lateral (
    select job.id
    from treadle.jobs as job
    where job.worker_id = worker.worker_id
      and job.status in ('claimed', 'running')
    limit 1
) as claimed on true
order by worker.seen_at desc
limit 1000
