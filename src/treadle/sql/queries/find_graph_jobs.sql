-- These jobs, with what a graph shows.
select
    node.id,
    null,
    job.job_type,
    job.status,
    coalesce(job.is_blocked, false),
    coalesce(job.progress, 0),
    job.created,
    job.started,
    job.finished,
    job.title
from unnest(%(ids)s::uuid[]) as node (id)
left join lateral (
    /* graph_node.sql */
) as job on true
order by node.id
