-- As enqueue_with_options.sql, with the stored objects that the jobs use: for each the number of its job, from 1. A job that
-- existed before and was not changed has its own payload.
with enqueued as materialized (
    select job.id, job.is_new, job.is_changed, pg_catalog.row_number() over () as nth
    from (
        /* enqueue_with_options.sql */
    ) as job
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
