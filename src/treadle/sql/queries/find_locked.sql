-- Those of the jobs whose rows other transactions have locked.
with unlocked as materialized (
    select job.id
    from treadle.jobs as job
    where job.id operator(pg_catalog.=) any (%(ids)s::uuid[])
    for no key update skip locked
)
select job.id
from treadle.jobs as job
where job.id operator(pg_catalog.=) any (%(ids)s::uuid[])
  and not exists (select from unlocked where unlocked.id operator(pg_catalog.=) job.id)
