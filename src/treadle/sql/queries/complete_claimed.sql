-- complete_jobs() for workers: waits only briefly for a row that another transaction has locked, whatever the lock_timeout
-- of the role is. The completer postpones such a job. Returns as complete_jobs.sql.
with setting as materialized (
    select pg_catalog.set_config('lock_timeout', '100ms', true)
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
