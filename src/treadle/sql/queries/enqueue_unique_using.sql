-- Calls enqueue_unique(), and records the stored objects that the new job uses. A job that this statement can see existed
-- before, and has its own payload. (One that another transaction has just added is not visible; it keeps the objects until
-- it is deleted, which is harmless.)
with enqueued as materialized (
    select treadle.enqueue_unique(
        %(job_type)s,
        %(unique)s,
        %(data)s::jsonb,
        %(priority)s,
        %(queue)s,
        %(run_at)s,
        %(delay)s,
        %(key)s,
        %(max_attempts)s
    ) as id
),
used as (
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct use.stored_id, enqueued.id
    from pg_catalog.unnest(pg_catalog.string_to_array(%(stored)s, ',')::uuid[]) as use (stored_id)
    cross join enqueued
    where not exists (select from treadle.jobs as job where job.id operator(pg_catalog.=) enqueued.id)
)
select id
from enqueued
