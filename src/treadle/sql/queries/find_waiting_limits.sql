-- The limits that jobs wait for, and their keys: what is in force and what would be otherwise, how many jobs wait, and
-- for how long the oldest has. Of a limit per period, jobs are counted up to those of a day, but at most an equal share
-- of 20,000.
with found as materialized (
    select
        status.name, status.per, status.key, status.amount, status.seconds, status.in_code, status.declared_amount,
        status.declared_seconds, status.changed_by, status.changed_at, status.waiting,
        status.waiting < status.counted_to and status.lanes < status.counted_to as exact,
        coalesce(status.key, '') as limit_key
    from treadle.find_limits(null, 100) as status
    where status.lanes > 0
),
budget as materialized (
    select 20000 / greatest(1, count(*)) as jobs
    from found
)
select
    found.name, found.per, found.key, found.amount, found.seconds, found.in_code,
    own.amount is not null,
    case when own.amount is not null then rule.amount else found.declared_amount end,
    case
        when own.amount is not null then extract(epoch from rule.period)::double precision
        else found.declared_seconds
    end,
    left(found.changed_by, 200),
    extract(epoch from clock_timestamp() - found.changed_at)::double precision,
    greatest(found.waiting, further.jobs),
    found.exact or further.jobs < further.counted_to,
    -- An INSERT by hand can set any time, even -infinity.
    extract(epoch from clock_timestamp() - greatest(oldest.run_at, '0001-01-02'))::double precision as due
from found
cross join budget
cross join treadle.safe_tick(pg_current_snapshot()) as safe
join treadle.limits as rule on rule.name = found.name
left join treadle.limit_keys as own on own.name = found.name and own.key = found.limit_key
cross join lateral (
    select min(head.run_at) as run_at
    from (
        select row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane as lane
        from treadle.lanes as lane
        where lane.limit_name = found.name
          and lane.limit_key = found.limit_key
        limit 20
    ) as known
    left join lateral treadle.safe_floor(known.lane, safe) as bound on true
    cross join lateral treadle.lane_head(known.lane, coalesce(bound.floor, '-infinity')) as head
    where head.run_at <= clock_timestamp()
) as oldest
left join lateral (
    select count(*) as jobs, most.jobs as counted_to
    from (
        select least(budget.jobs, ceil(found.amount * 86400 / found.seconds) + 1)::bigint as jobs
    ) as most
    left join lateral (
        select
        from (
            select row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane as lane
            from treadle.lanes as lane
            where lane.limit_name = found.name
              and lane.limit_key = found.limit_key
            limit 1000
        ) as known
        left join lateral treadle.safe_floor(known.lane, safe) as bound on true
        cross join lateral (
            select
            from treadle.lane_jobs(known.lane, coalesce(bound.floor, '-infinity')) as job
            where job.run_at <= clock_timestamp()
            limit most.jobs
        ) as job
        limit most.jobs
    ) as waiting on true
    group by most.jobs
) as further on found.seconds is not null and found.amount > 0 and not found.exact
where oldest.run_at is not null
order by due desc
