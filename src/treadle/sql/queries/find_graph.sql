-- The jobs of a workflow, in the order of their ids, with what their graph shows. At most %(limit)s of them. Times are numbers, which
-- are read ten times as fast.
select
    extract(epoch from now())::float8,
    member.after_id,
    member.step,
    job.job_type,
    case when job.status = 'cancelled' and job.keeps & 512 <> 0 then 'skipped' else job.status end,
    coalesce(job.holds & 6 <> 0, false),
    case when job.status = 'completed' then 100 else coalesce(job.progress, 0) end,
    case when job.created_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.created_at)::float8 end,
    case when job.started_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.started_at)::float8 end,
    case when job.finished_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.finished_at)::float8 end,
    job.title
from (
    select edge.after_id, edge.step
    from treadle.dependencies as edge
    where edge.job_id = %(id)s
      and edge.needs = 'member'
    order by edge.after_id
    limit %(limit)s
) as member
-- One by one, by id; offset 0 keeps the planner from joining in another way.
left join lateral (
    select
        known.job_type, known.status, known.holds, known.keeps, known.progress, known.created_at, known.started_at, known.finished_at,
        case when known.job_type = 'workflow' then left(known.data ->> 'name', 200) end as title
    from treadle.jobs as known
    where known.id = member.after_id
    offset 0
) as job on true
order by member.after_id
