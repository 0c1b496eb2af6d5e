-- As enqueue_workflow.sql, with the stored objects that the jobs use: for each the number of its job, from 0.
with enqueued as materialized (
    select nth, id
    from treadle.enqueue_workflow(%(name)s, %(blocks)s::pg_catalog.jsonb, %(options)s::pg_catalog.jsonb)
),
used as (
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct use.stored_id, enqueued.id
    from unnest(
        pg_catalog.string_to_array(%(stored)s, ',')::uuid[], pg_catalog.string_to_array(%(nths)s, ',')::int[]
    ) as use (stored_id, nth)
    join enqueued on enqueued.nth operator(pg_catalog.=) use.nth
    on conflict do nothing
)
select nth, id
from enqueued
order by nth
