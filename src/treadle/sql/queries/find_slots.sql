-- The claimed and running jobs by worker, along idx_jobs_worker: its order makes the planner use it. Of each worker, how many it
-- has, and the first of those that it has had for the longest time.
with claimed as materialized (
    select job.worker_id, job.id, job.job_type, job.status, coalesce(job.started_at, job.claimed_at) as since
    from treadle.jobs as job
    where job.status in ('claimed', 'running')
      and job.worker_id is not null
    order by job.worker_id
    limit %(limit)s
)
select worker_id, running, jobs, id, job_type, status = 'running', since
from (
    select
        claimed.*,
        count(*) over (partition by worker_id) as jobs,
        count(*) filter (where status = 'running') over (partition by worker_id) as running,
        -- In this order a job keeps its place while others end.
        row_number() over (partition by worker_id order by status desc, since, id) as place
    from claimed
) as ranked
where place <= greatest(1, %(drawn)s / (select count(distinct worker_id) from claimed))
order by worker_id, place
