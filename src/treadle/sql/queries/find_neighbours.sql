-- The jobs around one job, %(limit)s of each kind: the workflows that it is a part of, the jobs that it waits for, and those that
-- wait for it. A thousand are examined in each direction. Of those that wait for it, these are the oldest and the newest: a workflow
-- was enqueued either before its jobs or after them. Of those that it waits for, the ones that have not ended come first.
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
      and edge.needs <> 'member'
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
    near.kind,
    near.id,
    -- What the workflow of this job calls the other one.
    coalesce(near.step, (
        select edge.step
        from treadle.dependencies as edge
        where edge.job_id = (select workflow.id from near as workflow where workflow.kind = 'workflow' limit 1)
          and edge.after_id = near.id
    )),
    job.job_type,
    case when job.status = 'cancelled' and job.keeps & 512 <> 0 then 'skipped' else job.status end,
    coalesce(job.holds & 6 <> 0, false),
    case when job.status = 'completed' then 100 else coalesce(job.progress, 0) end,
    case when job.created_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.created_at)::float8 end,
    case when job.started_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.started_at)::float8 end,
    case when job.finished_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.finished_at)::float8 end,
    job.title
from near
left join lateral (
    select
        known.job_type, known.status, known.holds, known.keeps, known.progress, known.created_at, known.started_at, known.finished_at,
        case when known.job_type = 'workflow' then left(known.data ->> 'name', 200) end as title
    from treadle.jobs as known
    where known.id = near.id
    offset 0
) as job on true
order by near.kind, near.nth, near.id
