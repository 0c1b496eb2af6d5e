-- The lanes with due jobs. If the tick is stale, the scan must begin at settled, as a claim does.
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
    limit 2000
)
select
    lane.queue,
    lane.job_type,
    lane.priority,
    -- A manual insert can set run_at to -infinity.
    extract(epoch from clock_timestamp() - greatest(head.run_at, '0001-01-02'))::double precision as due
from lane
cross join lateral (
    select job.run_at
    from treadle.jobs as job
    where job.queue = lane.queue
      and job.job_type = lane.job_type
      and job.priority = lane.priority
      and job.run_at >= lane.start
      and job.status = 'pending'
      and job.holds = 0
      and job.attempts < job.max_attempts
    order by job.run_at
    limit 1
) as head
where head.run_at <= clock_timestamp()
order by due desc
