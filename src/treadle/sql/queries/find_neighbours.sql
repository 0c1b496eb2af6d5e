-- The jobs around one job, %(limit)s of each kind: the workflows that it is a part of, the jobs that it waits for, and those that
-- wait for it. Of the jobs that it waits for, a thousand are examined, and those that have not ended come first.
select
    near.kind,
    near.id,
    near.step,
    job.job_type,
    job.status,
    coalesce(job.holds & 2 <> 0, false),
    case when job.status = 'completed' then 100 else coalesce(job.progress, 0) end,
    case when job.created_at between '0001-01-02' and '9999-12-30' then job.created_at end,
    case when job.started_at between '0001-01-02' and '9999-12-30' then job.started_at end,
    case when job.finished_at between '0001-01-02' and '9999-12-30' then job.finished_at end,
    case when job.job_type = 'workflow' then left(job.data ->> 'name', 200) end
from (
    (
        select 'workflow' as kind, 0 as nth, edge.job_id as id, edge.step
        from treadle.dependencies as edge
        where edge.after_id = %(id)s
          and edge.needs = 'member'
        order by edge.job_id
        limit %(limit)s
    )
    union all
    select 'before', row_number() over (order by examined.ended, examined.after_id), examined.after_id, null
    from (
        select edge.after_id, other.finished_at is not null or other.id is null as ended
        from (
            select known.after_id
            from treadle.dependencies as known
            where known.job_id = %(id)s
              and known.needs <> 'member'
            order by known.after_id
            limit 1000
        ) as edge
        left join lateral (
            select known.id, known.finished_at
            from treadle.jobs as known
            where known.id = edge.after_id
            offset 0
        ) as other on true
        order by 2, 1
        limit %(limit)s
    ) as examined
    union all
    (
        select 'following', 0, edge.job_id, null
        from treadle.dependencies as edge
        where edge.after_id = %(id)s
          and edge.needs <> 'member'
        order by edge.job_id
        limit %(limit)s
    )
) as near
left join treadle.jobs as job on job.id = near.id
order by near.kind, near.nth, near.id
