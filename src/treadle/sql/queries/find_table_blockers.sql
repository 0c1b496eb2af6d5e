-- The sessions and prepared transactions that keep others from using the queue's tables: those that have a lock which
-- excludes reading or writing, and those that somebody waits for, also behind a lock that is itself only waited for. It
-- reads no table of the queue, so it never waits. pg_blocking_pids() stops the whole lock manager for a moment: it is
-- called for few sessions.
with ours as materialized (
    select class.oid, class.relname::text as name
    from pg_class as class
    join pg_namespace as namespace on namespace.oid = class.relnamespace
    where namespace.nspname = 'treadle'
      and class.relkind = 'r'
),
lock as materialized (
    select
        lock.locktype, lock.relation, lock.transactionid, lock.mode, lock.granted, lock.pid, lock.virtualtransaction,
        lock.waitstart
    from pg_locks as lock
    where lock.pid is distinct from pg_backend_pid()
      and lock.locktype in ('relation', 'tuple', 'transactionid')
      and (lock.database is null or lock.database = (select base.oid from pg_database as base where base.datname = current_database()))
),
-- Who waits for a row has a lock on it, and waits for the transaction that has changed it.
waiter as materialized (
    select waited.pid, ours.name, waited.waitstart, waited.locktype = 'relation' as for_table
    from lock as waited
    join lock as place on place.pid = waited.pid
        and (waited.locktype = 'transactionid' and place.locktype = 'tuple' and place.granted or place = waited)
    join ours on ours.oid = place.relation
    where not waited.granted
    order by waited.waitstart
    limit 50
),
blocked as materialized (
    select blocking.pid, waiter.pid as waiter, waiter.name, waiter.waitstart, waiter.for_table
    from waiter
    cross join lateral unnest(pg_blocking_pids(waiter.pid)) as blocking (pid)
),
excluding as materialized (
    select lock.pid, lock.virtualtransaction, ours.name, lock.mode, lock.granted
    from lock
    join ours on ours.oid = lock.relation
    where lock.locktype = 'relation'
      and lock.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
),
blocker as (
    select
        coalesce(blocked.pid, 0) as pid, null as virtualtransaction, blocked.name, blocked.waiter, blocked.waitstart,
        blocked.for_table, false as stops_reading
    from blocked
    where blocked.pid <> 0
    union all
    select
        coalesce(excluding.pid, 0), case when excluding.pid is null then excluding.virtualtransaction end,
        excluding.name, null, null, true, excluding.mode = 'AccessExclusiveLock'
    from excluding
    -- One that is itself waiting is in the way only if somebody waits behind it.
    where excluding.granted
       or exists (select from blocked where blocked.pid = excluding.pid)
)
select
    blocker.pid,
    prepared.gid,
    coalesce(activity.usename, prepared.owner)::text,
    activity.application_name,
    coalesce(activity.client_addr::text, 'local'),
    activity.state,
    left(activity.query, 1000),
    extract(epoch from clock_timestamp() - coalesce(activity.xact_start, prepared.prepared))::double precision as seconds,
    array_agg(distinct blocker.name),
    bool_or(blocker.for_table),
    bool_or(blocker.stops_reading),
    count(distinct blocker.waiter),
    extract(epoch from clock_timestamp() - min(blocker.waitstart))::double precision,
    exists (select from lock where lock.pid = blocker.pid and not lock.granted)
from blocker
left join pg_stat_activity as activity on activity.pid = blocker.pid
-- A prepared transaction has no process, but a lock on its own number.
left join lock as own
    on own.pid is null
    and own.locktype = 'transactionid'
    and own.virtualtransaction = blocker.virtualtransaction
left join pg_prepared_xacts as prepared on prepared.transaction = own.transactionid
group by
    blocker.pid, blocker.virtualtransaction, prepared.gid, prepared.owner, prepared.prepared, activity.usename,
    activity.application_name, activity.client_addr, activity.state, activity.query, activity.xact_start
order by seconds desc nulls last
limit 20
