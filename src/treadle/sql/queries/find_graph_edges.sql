-- For each of the first %(limit)s jobs of a workflow: which jobs it waits for. At most %(edges)s together, and %(each)s
-- for each job; null is no limit. A job that comes later in a workflow usually has a larger id, so the largest are the
-- last ones that are waited for.
select found.job_id, array_agg(found.after_id order by found.after_id)
from (
    select source.job_id, source.after_id
    from (
        select edge.after_id
        from treadle.dependencies as edge
        where edge.job_id = %(id)s
          and edge.needs = 'member'
        order by edge.after_id
        limit %(limit)s
    ) as member
    cross join lateral (
        select edge.job_id, edge.after_id
        from treadle.dependencies as edge
        where edge.job_id = member.after_id
          and edge.needs <> 'member'
        order by edge.after_id desc
        limit %(each)s
    ) as source
    limit %(edges)s
) as found
group by found.job_id
