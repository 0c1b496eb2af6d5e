-- The types and queues of which attempts have ended in the last seconds, or that run now.
select distinct counted.queue, counted.job_type
from treadle.minutes as counted
where counted.minute > clock_timestamp() - make_interval(secs => %(seconds)s)
union
select claimed.queue, claimed.job_type
from (
    select job.queue, job.job_type
    from treadle.jobs as job
    where job.status in ('claimed', 'running')
    limit 1000
) as claimed
