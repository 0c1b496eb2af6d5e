-- Workflows and batches that are not part of another one, the newest first, after the one with the id %(after)s: at
-- most %(look)s are examined, along the primary key. Whether a job of it runs is read from its first 20 jobs.
-- The counts are those of the last tick, with what has changed since.
with examined as materialized (
    select workflow.id, workflow.is_open, workflow.jobs, workflow.completed, workflow.failed, workflow.cancelled
    from treadle.workflows as workflow
    where (%(after)s::uuid is null or workflow.id < %(after)s::uuid)
    order by workflow.id desc
    limit %(look)s
),
known as materialized (
    select examined.*, job.status, job.name, job.progress, job.created_at, job.finished_at, job.queue
    from examined
    -- One by one, by id.
    cross join lateral (
        select
            found.status,
            left(found.data ->> 'name', 200) as name,
            case when found.status = 'completed' then 100 else coalesce(found.progress, 0) end as progress,
            least(greatest(coalesce(found.created_at, found.run_at), '0001-01-02'), '9999-12-30') as created_at,
            case when found.finished_at between '0001-01-02' and '9999-12-30' then found.finished_at end as finished_at,
            found.queue
        from treadle.jobs as found
        where found.id = examined.id
          and (found.flags & treadle.flag_member() = 0 or %(nested)s)
        offset 0
    ) as job
),
changed as (
    select
        known.id, known.is_open, known.status, known.name, known.progress, known.created_at, known.finished_at,
        known.queue,
        known.jobs + coalesce(change.jobs, 0) as jobs,
        known.completed + coalesce(change.completed, 0) as completed,
        known.failed + coalesce(change.failed, 0) as failed,
        known.cancelled + coalesce(change.cancelled, 0) as cancelled
    from known
    left join lateral (
        select
            sum(noted.jobs)::int as jobs, sum(noted.completed)::int as completed, sum(noted.failed)::int as failed,
            sum(noted.cancelled)::int as cancelled
        from (
            select change.jobs, change.completed, change.failed, change.cancelled
            from treadle.member_changes as change
            where change.workflow_id = known.id
            limit 10000
        ) as noted
    ) as change on true
),
described as (
    select
        changed.*,
        case
            when changed.status in ('completed', 'failed', 'cancelled') then changed.status
            when changed.completed + changed.failed + changed.cancelled > 0 or exists (
                select
                from (
                    select edge.after_id
                    from treadle.dependencies as edge
                    where edge.job_id = changed.id
                      and edge.needs = 'member'
                    limit 20
                ) as member
                cross join lateral (
                    select
                    from treadle.jobs as job
                    where job.id = member.after_id
                      and job.status in ('claimed', 'running')
                    offset 0
                ) as active
            )
                then 'running'
            else 'waiting'
        end as state
    from changed
)
select
    clock_timestamp(),
    place.examined,
    place.last,
    found.id,
    found.name,
    found.state,
    found.is_open,
    found.jobs,
    found.completed,
    found.failed,
    found.cancelled,
    found.progress,
    found.created_at,
    found.finished_at,
    found.queue
from (select count(*) as examined, (array_agg(examined.id order by examined.id))[1] as last from examined) as place
left join (
    select described.*
    from described
    where (%(state)s::text is null or described.state = %(state)s::text)
      and (%(name)s::text is null or position(lower(%(name)s::text) in lower(described.name)) > 0)
    order by described.id desc
    limit %(limit)s
) as found on true
order by found.id desc
