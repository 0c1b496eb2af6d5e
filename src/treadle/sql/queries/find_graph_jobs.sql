-- These jobs, with what a graph shows.
select
    wanted.id,
    null,
    job.job_type,
    case when job.status = 'cancelled' and job.keeps & 512 <> 0 then 'skipped' else job.status end,
    coalesce(job.holds & 6 <> 0, false),
    case when job.status = 'completed' then 100 else coalesce(job.progress, 0) end,
    case when job.created_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.created_at)::float8 end,
    case when job.started_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.started_at)::float8 end,
    case when job.finished_at between '0001-01-02' and '9999-12-30' then extract(epoch from job.finished_at)::float8 end,
    job.title
from unnest(%(ids)s::uuid[]) as wanted (id)
left join lateral (
    select
        known.job_type, known.status, known.holds, known.keeps, known.progress, known.created_at, known.started_at, known.finished_at,
        case when known.job_type = 'workflow' then left(known.data ->> 'name', 200) end as title
    from treadle.jobs as known
    where known.id = wanted.id
    offset 0
) as job on true
order by wanted.id
