-- Jobs that were written or deleted while triggers were off (session_replication_role = replica, logical replication,
-- alter table … disable trigger), and that nothing mends by itself: ended without finished_at; blocked behind a key of
-- which no job is left that would unblock it; waiting for a job that has ended; a workflow whose counts are not those
-- of its jobs. Of the last three kinds, those among the oldest blocked jobs; of workflows, at most 100, with 10,000
-- jobs in all.
with blocked as materialized (
    select job.id, job.job_type, job.key, job.holds
    from treadle.jobs as job
    where job.status = 'pending'
      and job.holds <> 0
    order by job.id
    limit 1000
)
(
    select 'finished', job.id::text, job.job_type, null as key
    from unnest(array['completed', 'failed', 'cancelled']) as kind (status)
    cross join lateral (
        select job.id, job.job_type
        from treadle.jobs as job
        where job.status in ('completed', 'failed', 'cancelled')
          and job.status = kind.status
          and job.finished_at is null
        limit 20
    ) as job
)
union all
(
    select 'key', first.id::text, first.job_type, waiting.key
    from (select distinct blocked.key from blocked where treadle.is_blocked_by_key(blocked.holds)) as waiting
    cross join lateral treadle.key_head(waiting.key) as first
    where treadle.key_rank(first.status, first.holds) = 2
    limit 20
)
union all
(
    select 'dependency', blocked.id::text, blocked.job_type, null
    from blocked
    cross join lateral (
        select bool_or(other.finished_at is null) as is_left, max(other.finished_at) as ended_at
        from (
            select edge.after_id
            from treadle.dependencies as edge
            where edge.job_id = blocked.id
              and edge.watched
            limit 100
        ) as watched
        join treadle.jobs as other on other.id = watched.after_id
        having count(*) > 0
    ) as watched
    where blocked.holds & treadle.blocked_by_jobs() <> 0
      and not watched.is_left
      and watched.ended_at < clock_timestamp() - make_interval(secs => %(seconds)s)
      -- A workflow also waits for its plan, or to be closed.
      and not exists (select from treadle.workflows as workflow where workflow.id = blocked.id)
      -- Undecided: another finding.
      and not exists (
            select
            from treadle.dependency_checks as noted
            where blocked.id = any (noted.jobs)
               or noted.ended
      )
    limit 20
)
union all
(
    select
        'workflow',
        workflow.id::text,
        workflow.job_type,
        format('%%s of %%s jobs have ended, it counts %%s of %%s', members.ended, members.jobs, counted.ended, counted.jobs)
    from (
        select oldest.id, oldest.job_type
        from (
            select blocked.id, blocked.job_type, sum(known.jobs) over (order by blocked.id) as jobs
            from blocked
            join treadle.workflows as known on known.id = blocked.id
            where not known.has_plan
              and known.jobs <= 1000
            order by blocked.id
            limit 100
        ) as oldest
        where oldest.jobs <= 10000
    ) as workflow
    cross join lateral (
        select
            known.jobs + coalesce(sum(change.jobs), 0) as jobs,
            known.completed + coalesce(sum(change.completed), 0) as completed,
            known.failed + coalesce(sum(change.failed), 0) as failed,
            known.cancelled + coalesce(sum(change.cancelled), 0) as cancelled,
            known.completed + known.failed + known.cancelled
                + coalesce(sum(change.completed + change.failed + change.cancelled), 0) as ended
        from treadle.workflows as known
        left join treadle.member_changes as change on change.workflow_id = known.id
        where known.id = workflow.id
        group by known.id
    ) as counted
    cross join lateral treadle.count_outcomes(workflow.id, 2000) as members
    where members.jobs < 2000 -- or jobs were added meanwhile that a tick has not counted
      and (
            members.jobs <> counted.jobs
            or members.ended <> counted.ended
            -- A job that was deleted stays in the count of how it ended.
            or members.completed > counted.completed
            or members.failed > counted.failed
            or members.cancelled > counted.cancelled
      )
    limit 20
)
