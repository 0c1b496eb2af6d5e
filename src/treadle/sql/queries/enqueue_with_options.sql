select id, is_new, is_changed
from treadle.enqueue_with_options(
    p_job_type => %(job_type)s,
    p_data => pg_catalog.string_to_array(%(data)s, E'\n'),
    p_unique => %(unique)s::varchar[],
    p_while => %(while)s,
    p_period => %(period)s,
    p_per_period => %(per_period)s,
    p_on_conflict => %(on_conflict)s::varchar[],
    p_latest => %(latest)s,
    p_all_or_none => %(all_or_none)s,
    p_expires => %(expires)s,
    p_expires_at => %(expires_at)s,
    p_priority => %(priority)s,
    p_queue => %(queue)s,
    p_run_at => %(run_at)s,
    p_delay => %(delay)s,
    p_keys => %(keys)s::varchar[],
    p_max_attempts => %(max_attempts)s,
    p_partitions => %(partitions)s::text[],
    p_weight => %(weight)s,
    p_after => %(after)s::pg_catalog.jsonb,
    p_workflow => %(workflow)s::pg_catalog.jsonb
)
