-- How the jobs of a workflow have ended, up to p_limit of them, by their own rows. The planner inlines this function.
create or replace function treadle.count_outcomes(p_id uuid, p_limit int)
returns table (
    jobs bigint, completed bigint, failed bigint, cancelled bigint, deleted bigint, ended bigint, work bigint, done bigint
)
language sql stable
as $$
    select
        count(*),
        count(*) filter (where member.outcome in ('completed', 'skipped')),
        count(*) filter (where member.outcome = 'failed'),
        count(*) filter (where member.outcome = 'cancelled'),
        count(*) filter (where member.outcome = 'deleted'),
        count(*) filter (where member.has_ended),
        coalesce(sum(member.effort), 0),
        coalesce(sum(member.effort) filter (where member.has_ended), 0)
    from (
        select
            edge.effort,
            case when job.id is null then 'deleted' else treadle.outcome_of(job.status, job.flags) end as outcome,
            job.id is null or job.status in ('completed', 'failed', 'cancelled') as has_ended
        from treadle.dependencies as edge
        -- One by one, by id; offset 0 keeps the planner from joining in another way.
        left join lateral (
            select known.id, known.status, known.flags
            from treadle.jobs as known
            where known.id = edge.after_id
            offset 0
        ) as job on true
        where edge.job_id = p_id
          and edge.needs = 'member'
        limit p_limit
    ) as member
$$;
