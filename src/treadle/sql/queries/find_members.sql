-- The jobs of a workflow, in the order in which they were enqueued.
select
    edge.after_id,
    job.job_type,
    job.status,
    case when job.status operator(pg_catalog.=) 'completed' then 100 else coalesce(job.progress, 0) end,
    edge.step
from treadle.dependencies as edge
left join treadle.jobs as job on job.id operator(pg_catalog.=) edge.after_id
where edge.job_id operator(pg_catalog.=) %(id)s
  and edge.needs operator(pg_catalog.=) 'member'
order by edge.after_id
