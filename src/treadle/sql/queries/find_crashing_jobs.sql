-- Jobs that crashed often. There is no index for crashes, but a recovered job returns to its old place at the head of
-- its lane; otherwise it is claimed or has failed.
with failed as materialized (
    select job.id, job.job_type, job.status, job.crashes, job.last_error
    from treadle.jobs as job
    where job.status = 'failed'
      and job.finished_at > clock_timestamp() - interval '1 day'
    order by job.finished_at desc
    limit 500
),
sample as (
    select job.id, job.job_type, job.status, job.crashes, job.last_error
    from treadle.sample_jobs() as job
    union all
    select * from failed
)
select sample.id::text, sample.job_type, sample.status, sample.crashes, left(sample.last_error, 200)
from sample
where sample.crashes >= %(crashes)s
order by sample.crashes desc, sample.id
limit 50
