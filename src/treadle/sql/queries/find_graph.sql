-- The jobs of a workflow, in the order of their ids, with what their graph shows. At most %(limit)s of them.
select
    extract(epoch from now())::float8,
    node.id,
    node.step,
    job.*
from (
    select edge.after_id as id, edge.step
    from treadle.dependencies as edge
    where edge.job_id = %(id)s
      and edge.needs = 'member'
    order by edge.after_id
    limit %(limit)s
) as node
left join lateral (
    /* graph_node.sql */
) as job on true
order by node.id
