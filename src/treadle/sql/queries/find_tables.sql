-- Read once: the view reads all of pg_class.
with statistics as materialized (
    select statistics.tablename, statistics.avg_width * (1 - statistics.null_frac) as avg_width
    from pg_stats as statistics
    where statistics.schemaname = 'treadle'
)
select
    class.relname::text,
    class.relpersistence = 'u',
    coalesce(
        (
            select jsonb_object_agg(option.option_name, option.option_value)
            from pg_options_to_table(class.reloptions) as option
        ),
        '{}'
    ),
    class.reltuples::double precision,
    pg_total_relation_size(class.oid),
    coalesce(counted.n_live_tup, 0),
    coalesce(counted.n_dead_tup, 0),
    extract(epoch from clock_timestamp() - greatest(counted.last_vacuum, counted.last_autovacuum))::double precision,
    (
        select extract(epoch from clock_timestamp() - min(migration.applied_at))::double precision
        from treadle.migrations as migration
    ),
    pg_relation_size(class.oid),
    (
        -- A header, and the average width of each column, nulls included; unknown if the table was never analyzed.
        select 28 + sum(statistics.avg_width)::double precision
        from statistics
        where statistics.tablename = class.relname
    )
from pg_class as class
join pg_namespace as namespace on namespace.oid = class.relnamespace
left join pg_stat_user_tables as counted on counted.relid = class.oid
where namespace.nspname = 'treadle'
  and class.relkind = 'r'
order by class.relname
