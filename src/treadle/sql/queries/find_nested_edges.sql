-- For workflows that are parts of this one: which of its other jobs their jobs wait for. A nested workflow itself waits
-- for nothing but its own jobs. A hundred jobs of each are examined, and 5,000 together, three levels deep.
with recursive part as (
    select nested.id as workflow, nested.id, 0 as depth
    from unnest(%(nested)s::uuid[]) as nested (id)
    union all
    select part.workflow, member.after_id, part.depth + 1
    from part
    cross join lateral (
        select edge.after_id
        from treadle.dependencies as edge
        where edge.job_id = part.id
          and edge.needs = 'member'
        order by edge.after_id
        limit 100
    ) as member
    where part.depth < 3
)
select part.workflow, array_agg(distinct source.after_id)
from (
    select known.workflow, known.id
    from part as known
    limit 5000
) as part
cross join lateral (
    select edge.after_id
    from treadle.dependencies as edge
    where edge.job_id = part.id
      and edge.needs <> 'member'
    order by edge.after_id
    limit 100
) as source
where part.workflow <> source.after_id
  and exists (
    select 1
    from treadle.dependencies as edge
    where edge.job_id = %(id)s
      and edge.after_id = source.after_id
      and edge.needs = 'member'
    offset 0
)
group by part.workflow
