-- Open batches all of whose jobs have ended, and since when. Of those that were opened last, at most 1,000 are read.
select
    workflow.id, coalesce(last.ended, 0),
    extract(epoch from now() - coalesce(last.at, job.created_at))::double precision
from (
    select workflow.id, workflow.jobs, workflow.completed + workflow.failed + workflow.cancelled as ended
    from treadle.workflows as workflow
    where workflow.is_open
      and not workflow.has_plan
      and workflow.jobs <= workflow.completed + workflow.failed + workflow.cancelled
    order by workflow.id desc
    limit 1000
) as workflow
join treadle.jobs as job on job.id = workflow.id and job.status = 'pending'
cross join lateral (
    select max(member.finished_at) as at, workflow.ended
    from (
        select edge.after_id
        from treadle.dependencies as edge
        where edge.job_id = workflow.id
          and edge.needs = 'member'
        order by edge.after_id desc
        limit 10
    ) as edge
    join treadle.jobs as member on member.id = edge.after_id
) as last
where coalesce(last.at, job.created_at) < now() - %(seconds)s * interval '1 second'
order by 3 desc
limit 20
