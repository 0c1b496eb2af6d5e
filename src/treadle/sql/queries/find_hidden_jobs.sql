-- The first job of each lane that has been due for some time and lies where no claim looks: in a lane that is not
-- listed, or that is dormant, or below its floor. Not jobs that an open transaction has locked: ticks look for them
-- when it ends. Goes through the lanes of idx_jobs_claimable, as a tick does, for a second at most.
with recursive locker as materialized (
    select coalesce(array_agg(lock.transactionid), '{}') as xids
    from pg_locks as lock
    where lock.locktype = 'transactionid'
      and lock.granted
),
walk as (
    select next.queue, next.job_type, next.priority, next.partition, next.run_at, 1 as nth
    from locker
    cross join lateral treadle.lane_after(null, locker.xids) as next
    where next.run_at is not null
    union all
    select next.queue, next.job_type, next.priority, next.partition, next.run_at, walk.nth + 1
    from walk
    cross join locker
    cross join lateral treadle.lane_after(
        row(walk.queue, walk.job_type, walk.priority, walk.partition)::treadle.lane, locker.xids
    ) as next
    where walk.nth < 1000
      and clock_timestamp() < statement_timestamp() + interval '1 second'
      and next.run_at is not null
),
due as materialized (
    select walk.run_at, row(walk.queue, walk.job_type, walk.priority, walk.partition)::treadle.lane as lane
    from walk
    where walk.run_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
)
select
    (due.lane).queue,
    (due.lane).job_type,
    (due.lane).priority,
    (due.lane).partition,
    -- An INSERT by hand can set any time, even -infinity.
    extract(epoch from clock_timestamp() - greatest(due.run_at, '0001-01-02'))::double precision as due,
    case when listed.searched then bound.floor end,
    first.id::text
from due
cross join lateral (
    select count(*) > 0 as searched
    from treadle.lanes as known
    where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, due.lane)
      and treadle.is_listed(known.dormant_xid, known.limit_name)
) as listed
left join lateral treadle.lane_floor(due.lane) as bound on true
cross join lateral treadle.lane_head(due.lane, due.run_at) as first
where not listed.searched
   -- A floor ahead of the clock is from before the clock was set back; the next tick removes it.
   or due.run_at < bound.floor and bound.floor <= clock_timestamp()
order by due desc
limit 20
