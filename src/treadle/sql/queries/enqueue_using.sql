-- Around an enqueue: also records the stored objects that the jobs use, for each the place of its job among the rows,
-- from 1.
with enqueued as materialized (
    select job.*, pg_catalog.row_number() over () as place
    from (
        /* the enqueue */
    ) as job
),
used as (
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct use.stored_id, enqueued.id
    from unnest(
        pg_catalog.string_to_array(%(stored)s, ',')::uuid[], pg_catalog.string_to_array(%(places)s, ',')::int[]
    ) as use (stored_id, place)
    join enqueued on enqueued.place operator(pg_catalog.=) use.place
    where /* it has this payload */
    on conflict do nothing
)
select /* columns */
from enqueued
order by place
