with client as materialized (
    select activity.datid, activity.usesysid, activity.application_name like 'treadle%%' as ours
    from pg_stat_activity as activity
    where activity.datid is not null
      -- Null for sessions that this role may not see.
      and coalesce(activity.backend_type, 'client backend') = 'client backend'
)
select
    'the server',
    count(*),
    count(*) filter (where client.ours),
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int
from client
union all
select
    'database ' || base.datname,
    (select count(*) from client where client.datid = base.oid),
    (select count(*) from client where client.datid = base.oid and client.ours),
    base.datconnlimit
from pg_database as base
where base.datname = current_database()
  and base.datconnlimit >= 0
union all
select
    'role ' || role.rolname,
    (select count(*) from client where client.usesysid = role.oid),
    (select count(*) from client where client.usesysid = role.oid and client.ours),
    role.rolconnlimit
from pg_roles as role
where role.rolname = current_user
  and role.rolconnlimit >= 0
