-- The ids that were accepted, or null if all were. That is the usual case, in which reading the ids would be wasted.
-- lock_timeout: how long to wait for a row that another transaction has locked; null: as the session has it.
with setting as materialized (
    select pg_catalog.set_config(
        'lock_timeout', coalesce(%(lock_timeout)s::text, pg_catalog.current_setting('lock_timeout')), true
    )
),
accepted as materialized (
    select treadle.complete_jobs(
        pg_catalog.string_to_array(%(ids)s, ',')::uuid[],
        pg_catalog.string_to_array(%(leases)s, ',')::bigint[],
        pg_catalog.string_to_array(%(worker_ids)s, E'\n'),
        pg_catalog.string_to_array(%(results)s, E'\n', ''),
        pg_catalog.string_to_array(%(seconds)s, ',')::double precision[]
    ) as id
    from setting
)
select case
    when (select pg_catalog.count(*) from accepted) operator(pg_catalog.<) %(number)s
        then array(select accepted.id from accepted)
end
