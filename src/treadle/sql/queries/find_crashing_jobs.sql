-- No index covers crashes. But a recovered job goes back to its old place, near the head of its lane; otherwise it is
-- claimed again, or has failed.
with tick as materialized (
    select treadle.tick_is_fresh() as fresh
),
lane as materialized (
    select
        lane.queue,
        lane.job_type,
        lane.priority,
        max(case when tick.fresh then lane.floor else lane.settled end) as start
    from treadle.lanes as lane
    cross join tick
    group by lane.queue, lane.job_type, lane.priority
    limit 200
),
waiting as materialized (
    select job.*
    from lane
    cross join lateral (
        select job.id, job.job_type, job.status, job.crashes, job.last_error
        from treadle.jobs as job
        where job.queue = lane.queue
          and job.job_type = lane.job_type
          and job.priority = lane.priority
          and job.run_at >= lane.start
          and job.status = 'pending'
          and job.holds = 0
          and job.attempts < job.max_attempts
        order by job.run_at
        limit 10
    ) as job
),
claimed as materialized (
    select job.id, job.job_type, job.status, job.crashes, job.last_error
    from treadle.jobs as job
    where job.status in ('claimed', 'running')
    limit 1000
),
failed as materialized (
    select job.id, job.job_type, job.status, job.crashes, job.last_error
    from treadle.jobs as job
    where job.status = 'failed'
      and job.finished_at > clock_timestamp() - interval '1 day'
    order by job.finished_at desc
    limit 500
),
seen as (
    select * from waiting
    union all
    select * from claimed
    union all
    select * from failed
)
select seen.id::text, seen.job_type, seen.status, seen.crashes, left(seen.last_error, 200)
from seen
where seen.crashes >= %(crashes)s
order by seen.crashes desc, seen.id
limit 50
