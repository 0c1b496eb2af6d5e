-- What keeps vacuum from removing dead rows: open transactions, replication slots and prepared transactions.
with blocker as (
    select
        case activity.backend_type when 'walsender' then 'standby' else 'session' end as kind,
        activity.pid::text as name,
        activity.usename::text as username,
        activity.application_name as application,
        coalesce(activity.client_addr::text, 'local') as client,
        activity.state,
        left(activity.query, 1000) as query,
        extract(epoch from clock_timestamp() - coalesce(activity.xact_start, activity.backend_start))
            ::double precision as seconds,
        greatest(age(activity.backend_xid), age(activity.backend_xmin)) as transactions,
        activity.backend_type = 'walsender' or activity.datname = current_database() as here
    from pg_stat_activity as activity
    where activity.pid <> pg_backend_pid()
      and (activity.backend_xid is not null or activity.backend_xmin is not null)
      and (
            activity.backend_type = 'walsender'
            or activity.datname = current_database()
            -- Snapshots of other databases do not matter here, but a transaction id counts in all of them.
            or activity.backend_xid is not null
      )
      -- The snapshot of a vacuum keeps no rows.
      and activity.backend_type <> 'autovacuum worker'
      and activity.query !~* '^\s*vacuum'
    union all
    select
        'slot',
        slot.slot_name::text,
        null,
        coalesce(slot.plugin::text, slot.slot_type),
        null,
        case when slot.active then format('used by process %%s', slot.active_pid) else 'inactive' end,
        null,
        -- PostgreSQL 17 and newer know since when the slot is inactive.
        extract(epoch from clock_timestamp() - (to_jsonb(slot) ->> 'inactive_since')::timestamptz)::double precision,
        age(slot.xmin),
        true
    from pg_replication_slots as slot
    where slot.xmin is not null
    union all
    select
        'prepared',
        prepared.gid,
        prepared.owner::text,
        null,
        null,
        null,
        null,
        extract(epoch from clock_timestamp() - prepared.prepared)::double precision,
        age(prepared.transaction),
        prepared.database = current_database()
    from pg_prepared_xacts as prepared
)
select kind, name, username, application, client, state, query, seconds, transactions, here
from blocker
order by transactions desc, seconds desc
limit 50
