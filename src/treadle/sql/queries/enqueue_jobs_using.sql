-- As enqueue_jobs.sql, with the stored objects that the jobs use: for each the number of its job, from 1.
with enqueued as materialized (
    select job.id, job.nth
    from treadle.enqueue_jobs(
        %(job_type)s,
        pg_catalog.string_to_array(%(data)s, E'\n'),
        %(priority)s,
        %(queue)s,
        %(run_at)s,
        %(delay)s,
        %(keys)s::varchar[],
        %(max_attempts)s,
        %(partitions)s::text[],
        %(headers)s::pg_catalog.jsonb
    ) with ordinality as job (id, nth)
),
used as (
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct use.stored_id, enqueued.id
    from unnest(
        pg_catalog.string_to_array(%(stored)s, ',')::uuid[], pg_catalog.string_to_array(%(nths)s, ',')::int[]
    ) as use (stored_id, nth)
    join enqueued on enqueued.nth operator(pg_catalog.=) use.nth
)
select id
from enqueued
order by nth
