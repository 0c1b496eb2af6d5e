-- These jobs, with what a graph shows.
select
    node.id,
    null,
    job.*
from unnest(%(ids)s::uuid[]) as node (id)
left join lateral (
    /* graph_node.sql */
) as job on true
order by node.id
