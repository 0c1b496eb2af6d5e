-- The jobs around one job, %(limit)s of each kind: the workflows that it is a part of, the jobs that it waits for
-- (those that have not ended first), and those that wait for it. A thousand are examined in each direction: of those
-- that wait for it the oldest and the newest, because a workflow was enqueued either before its jobs or after them.
with following as materialized (
    (
        select edge.job_id as id, edge.needs = 'member' as is_workflow, edge.step
        from treadle.dependencies as edge
        where edge.after_id = %(id)s
        order by edge.job_id
        limit 500
    )
    union
    (
        select edge.job_id, edge.needs = 'member', edge.step
        from treadle.dependencies as edge
        where edge.after_id = %(id)s
        order by edge.job_id desc
        limit 500
    )
),
before as materialized (
    select edge.after_id as id
    from treadle.dependencies as edge
    where edge.job_id = %(id)s
      and (
            edge.needs <> 'member'
            -- The jobs that have replaced it.
            or exists (select from treadle.jobs as job where job.id = edge.job_id and job.job_type <> 'workflow')
      )
    order by edge.after_id
    limit 1000
),
near as materialized (
    (
        select 'workflow' as kind, following.id, following.step, 0 as nth
        from following
        where following.is_workflow
        limit %(limit)s
    )
    union all
    (
        select 'before', before.id, null, case when job.finished_at is null and job.id is not null then 0 else 1 end
        from before
        left join lateral (
            select known.id, known.finished_at
            from treadle.jobs as known
            where known.id = before.id
            offset 0
        ) as job on true
        order by 4, 2
        limit %(limit)s
    )
    union all
    (
        select 'following', following.id, null, 0
        from following
        where not following.is_workflow
        order by following.id
        limit %(limit)s
    )
)
select
    node.kind,
    node.id,
    -- What the workflow of this job calls the other one.
    coalesce(node.step, (
        select edge.step
        from treadle.dependencies as edge
        where edge.job_id = (select workflow.id from near as workflow where workflow.kind = 'workflow' limit 1)
          and edge.after_id = node.id
    )),
    job.*
from near as node
left join lateral (
    /* graph_node.sql */
) as job on true
order by node.kind, node.nth, node.id
