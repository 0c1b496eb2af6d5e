-- What of the database is worth watching. Of the sessions of others, a role without pg_monitor does not see how old
-- they are.
select
    coalesce(
        (
            select extract(epoch from clock_timestamp() - to_timestamp(nullif(clock.last_value, 0) / 1000000.0))
            from treadle.tick_clock as clock
        ),
        -1
    )::double precision,
    coalesce((select counted.n_live_tup from pg_stat_user_tables as counted where counted.relid = 'treadle.jobs'::regclass), 0),
    coalesce((select counted.n_dead_tup from pg_stat_user_tables as counted where counted.relid = 'treadle.jobs'::regclass), 0),
    pg_table_size('treadle.jobs'::regclass),
    pg_indexes_size('treadle.jobs'::regclass),
    coalesce(
        (
            select max(extract(epoch from clock_timestamp() - activity.xact_start))
            from pg_stat_activity as activity
            where activity.datname = current_database()
              and activity.pid <> pg_backend_pid()
              and activity.backend_type = 'client backend'
        ),
        0
    )::double precision,
    (select age(base.datfrozenxid) from pg_database as base where base.datname = current_database()),
    (select count(*) from pg_stat_activity as activity where activity.datid is not null),
    current_setting('max_connections')::int
