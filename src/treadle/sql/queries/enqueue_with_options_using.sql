-- As enqueue_with_options.sql, with the stored objects that the jobs use: for each the number of its job, from 1. A job that
-- existed before and was not changed has its own payload.
with enqueued as materialized (
    select job.id, job.is_new, job.is_changed, job.nth
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
        p_max_attempts => %(max_attempts)s
    ) with ordinality as job (id, is_new, is_changed, nth)
),
used as (
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct use.stored_id, enqueued.id
    from unnest(
        pg_catalog.string_to_array(%(stored)s, ',')::uuid[], pg_catalog.string_to_array(%(nths)s, ',')::int[]
    ) as use (stored_id, nth)
    join enqueued on enqueued.nth operator(pg_catalog.=) use.nth
    where enqueued.is_new
       or enqueued.is_changed
    on conflict do nothing
)
select id, is_new, is_changed
from enqueued
order by nth
