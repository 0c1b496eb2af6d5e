-- The claimed and running jobs by worker, along idx_jobs_worker: its order makes the planner use it.
select job.worker_id, job.id, job.job_type, job.status, job.started_at, job.claimed_at
from treadle.jobs as job
where job.status in ('claimed', 'running')
  and job.worker_id is not null
order by job.worker_id
limit %(limit)s
