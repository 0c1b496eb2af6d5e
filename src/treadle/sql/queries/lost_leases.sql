select mine.id, job.lease = mine.lease and job.status = 'completed'
from unnest(%(ids)s::uuid[], %(leases)s::bigint[]) as mine (id, lease)
left join treadle.jobs as job on job.id = mine.id
where job.id is null
   or job.lease <> mine.lease
   or job.status not in ('claimed', 'running')
