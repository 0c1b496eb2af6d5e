-- Of each lane whose first job has been due for some time, the first job that a worker could claim now: not paused, the
-- head of its key, not locked by an open transaction, and not in a lane that waits for a limit. The longest first.
with known as materialized (
    select known.lane, known.start
    from treadle.safe_tick(pg_current_snapshot()) as safe
    cross join lateral treadle.lanes_to_search(safe) as known
    where not exists (select from treadle.pauses_of((known.lane).job_type, (known.lane).queue))
      and not exists (
            select
            from treadle.lanes as waiting
            where treadle.is_in_lane(waiting.queue, waiting.job_type, waiting.priority, waiting.partition, known.lane)
              and waiting.limit_name is not null
      )
    limit 2000
),
overdue as materialized (
    select known.lane, known.start
    from known
    cross join lateral treadle.lane_head(known.lane, known.start) as head
    where head.run_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
    order by head.run_at
    limit 100
),
locker as materialized (
    select lock.transactionid as xid
    from pg_locks as lock
    where lock.locktype = 'transactionid'
      and lock.granted
)
select
    job.id::text,
    (overdue.lane).queue,
    (overdue.lane).job_type,
    -- An INSERT by hand can set any time, even -infinity.
    extract(epoch from clock_timestamp() - greatest(job.run_at, '0001-01-02'))::double precision as due
from overdue
cross join lateral (
    select first.id, first.run_at
    from (
        select job.id, job.key, job.run_at, job.locked_by
        from treadle.lane_jobs(overdue.lane, overdue.start) as job
        order by job.run_at
        limit 10
    ) as first
    where first.run_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
      and first.locked_by not in (select locker.xid from locker)
      and (first.key is null or first.id = (select head.id from treadle.key_head(first.key) as head))
    order by first.run_at
    limit 1
) as job
order by due desc
