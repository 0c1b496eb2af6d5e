-- Of each worker, how many jobs it has claimed, and an equal share of those to draw: the ones that it has had for the
-- longest time. Both are read along idx_jobs_worker.
with worker as materialized (
    select
        claimed.worker_id,
        count(*) filter (where claimed.status = 'running') as running,
        count(*) as jobs,
        greatest(1, %(drawn)s / count(*) over ()) as share
    from (
        select job.worker_id, job.status
        from treadle.jobs as job
        where job.status in ('claimed', 'running')
          and job.worker_id is not null
        order by job.worker_id
        limit %(limit)s
    ) as claimed
    group by claimed.worker_id
)
select worker.worker_id, worker.running, worker.jobs, job.id, job.job_type, job.status = 'running', job.since
from worker
cross join lateral (
    select claimed.*
    from (
        select job.id, job.job_type, job.status, coalesce(job.started_at, job.claimed_at) as since
        from treadle.jobs as job
        where job.status in ('claimed', 'running')
          and job.worker_id = worker.worker_id
        limit %(limit)s
    ) as claimed
    -- In this order a job keeps its place while others end.
    order by claimed.status desc, claimed.since, claimed.id
    limit worker.share
) as job
order by worker.worker_id, job.status desc, job.since, job.id
