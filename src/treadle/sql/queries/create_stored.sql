-- A running job uses what it stores from the start.
with made as (
    insert into treadle.stored (id, name, place)
    values (treadle.new_id(), %(name)s, %(place)s)
    returning id
),
running as materialized (
    select job.id
    from treadle.jobs as job
    where job.id operator(pg_catalog.=) %(job_id)s::uuid
    for key share
),
used as (
    insert into treadle.stored_uses (stored_id, job_id)
    select made.id, running.id
    from made
    cross join running
)
select id
from made
