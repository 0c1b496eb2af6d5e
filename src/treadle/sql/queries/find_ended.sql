select wanted.id
from unnest(%(ids)s::uuid[]) as wanted (id)
left join treadle.jobs as job on job.id = wanted.id
where job.id is null
   or job.status in ('completed', 'failed', 'cancelled')
