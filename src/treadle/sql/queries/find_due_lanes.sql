-- The lanes with due jobs. If the last tick is not recent, the search starts at settled, as a claim does.
with tick as materialized (
    select treadle.tick_is_fresh() as fresh
),
known as materialized (
    select known.lane, case when tick.fresh then known.floor else known.settled end as start
    from treadle.known_lanes() as known
    cross join tick
    limit 2000
)
select
    (known.lane).queue,
    (known.lane).job_type,
    (known.lane).priority,
    -- An INSERT by hand can set any time, even -infinity.
    extract(epoch from clock_timestamp() - greatest(head.run_at, '0001-01-02'))::double precision as due
from known
cross join lateral (
    select job.run_at
    from treadle.lane_jobs(known.lane, known.start) as job
    order by job.run_at
    limit 1
) as head
where head.run_at <= clock_timestamp()
order by due desc
