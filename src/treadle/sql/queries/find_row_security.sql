-- Tables of the schema with row level security, and the users that it applies to: they have rights on the table, and
-- are neither superusers nor exempt (bypassrls). The owner, and members of it, are exempt unless it is forced.
select
    class.relname::text,
    owner.rolname::text,
    class.relforcerowsecurity,
    (select count(*) from pg_policy as policy where policy.polrelid = class.oid),
    array(
        select login.rolname::text
        from pg_roles as login
        where login.rolcanlogin
          and not login.rolsuper
          and not login.rolbypassrls
          and (class.relforcerowsecurity or not pg_has_role(login.oid, class.relowner, 'usage'))
          and has_schema_privilege(login.oid, namespace.oid, 'usage')
          and has_any_column_privilege(login.oid, class.oid, 'select, insert, update')
        order by login.rolname
        limit 100
    )
from pg_class as class
join pg_namespace as namespace on namespace.oid = class.relnamespace
join pg_roles as owner on owner.oid = class.relowner
where namespace.nspname = 'treadle'
  and class.relkind = 'r'
  and class.relrowsecurity
order by class.relname
