-- A page of the schedules, in the order of their names, with what became of their latest times. Without a search or a
-- state, it reads only what it returns, and counts up to a limit.
with matching as not materialized (
    select
        known.name, known.job_type, known.queue, known.priority, known.expression, known.timezone, known.overlap,
        known.digest is not null as in_code, computed.state, known.next_at, known.last_at, known.last_job,
        known.paused_at, known.retired_at, known.error, known.retry_at
    from treadle.schedules as known
    cross join lateral (
        select case
            when known.paused_at is not null then 'paused'
            when known.retired_at is not null then 'retired'
            when known.error is not null then 'error'
            when known.next_at = 'infinity' then 'ended'
            else 'active'
        end as state
    ) as computed
    where (
            %(search)s::text is null
            or position(lower(%(search)s::text) in lower(known.name)) > 0
            or position(lower(%(search)s::text) in lower(known.job_type)) > 0
        )
      and (%(state)s::text is null or computed.state = %(state)s::text)
      and (%(name)s::varchar is null or known.name = %(name)s::varchar)
),
page as materialized (
    select matching.*
    from matching
    where matching.name > %(after)s::varchar
    order by matching.name
    limit %(limit)s
)
select
    clock_timestamp(), counted.schedules,
    page.name, page.job_type, page.queue, page.priority, page.expression, page.timezone, page.overlap, page.in_code,
    page.state,
    case when page.state in ('active', 'error') then page.next_at end, page.last_at, page.last_job,
    case
        when page.last_job is not null then
            -- Not as a join, for which the planner could read all jobs.
            coalesce((select job.status from treadle.jobs as job where job.id = page.last_job), 'deleted')
    end,
    page.paused_at, page.retired_at, left(page.error, 500), page.retry_at,
    history.times, history.jobs, history.outcomes
from (
    select count(*) as schedules
    from (
        select
        from matching
        limit %(count_limit)s + 1
    ) as matching
) as counted
left join page on true
left join lateral (
    select
        array_agg(latest.scheduled_for order by latest.scheduled_for) as times,
        array_agg(latest.job_id order by latest.scheduled_for) as jobs,
        array_agg(
            case
                when latest.skipped = 'missed' then 'missed'
                when latest.skipped is not null then 'skipped'
                else coalesce((select job.status from treadle.jobs as job where job.id = latest.job_id), 'deleted')
            end
            order by latest.scheduled_for
        ) as outcomes
    from (
        select occurrence.scheduled_for, occurrence.job_id, occurrence.skipped
        from treadle.occurrences as occurrence
        where occurrence.schedule = page.name
        order by occurrence.scheduled_for desc
        limit %(history)s
    ) as latest
) as history on true
order by page.name
