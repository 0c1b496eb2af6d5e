select
    -- Names of tables in other databases are not visible.
    case when progress.datname = current_database() then progress.relid::regclass::text end,
    extract(epoch from clock_timestamp() - activity.xact_start)::double precision
from pg_stat_activity as activity
left join pg_stat_progress_vacuum as progress on progress.pid = activity.pid
where activity.backend_type = 'autovacuum worker'
