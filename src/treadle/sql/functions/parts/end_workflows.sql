-- Ends workflows all of whose jobs have ended, and whose rows are locked. A workflow is a job that no worker claims: it
-- has completed, or failed if one of its jobs did not complete. If none of them was needed, neither was it. It stays
-- held: if one of its jobs is retried, it waits again.
create or replace function treadle.end_workflows(p_ids uuid[]) returns void
language plpgsql
set treadle.plan = nested_loops
as $$
begin
    -- The stored objects that their results refer to.
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct known.stored_id, edge.job_id
    from treadle.jobs as job
    join treadle.dependencies as edge on edge.job_id = job.id
    join treadle.stored_uses as known on known.job_id = edge.after_id
    where job.id = any (p_ids)
      and job.flags & treadle.flag_inputs() <> 0
      and edge.arguments is not null
    on conflict do nothing;

    update treadle.jobs as job
    set status = ended.status,
        flags = case when ended.status = 'cancelled' then job.flags | treadle.flag_skipped() else job.flags end,
        started_at = coalesce(job.started_at, job.created_at),
        completed_at = case when ended.status = 'completed' then clock_timestamp() end,
        finished_at = clock_timestamp(),
        progress = case when ended.status = 'completed' then 100 else job.progress end,
        current_stage = ended.stage,
        result = case
            when ended.status = 'completed' and job.flags & treadle.flag_inputs() <> 0 then coalesce(
                treadle.results_for(job.id) -> 'result', case when job.data ?| '{map,group}' then '[]'::jsonb end
            )
        end,
        last_error = case ended.status
            when 'cancelled' then ended.skipped
            -- Because of the first that did not complete: check_ended() marks it, unless it is only just about to.
            when 'failed' then coalesce(treadle.describe_end(coalesce(
                (
                    select edge.after_id
                    from treadle.dependencies as edge
                    where edge.job_id = job.id
                      and edge.stopped
                    order by edge.after_id
                    limit 1
                ),
                (
                    select edge.after_id
                    from treadle.dependencies as edge
                    left join treadle.jobs as other on other.id = edge.after_id
                    where edge.job_id = job.id
                      and edge.needs = 'member'
                      and coalesce(treadle.outcome_of(other.status, other.flags) in ('failed', 'cancelled'), true)
                    order by edge.after_id
                    limit 1
                )
            )), 'a job failed')
        end
    from (
        select
            workflow.id,
            workflow.jobs || case when workflow.jobs = 1 then ' job' else ' jobs' end as stage,
            skipped.reason as skipped,
            case
                when workflow.failed + workflow.cancelled > 0 then 'failed'
                when skipped.reason is not null then 'cancelled'
                else 'completed'
            end as status
        from treadle.workflows as workflow
        cross join lateral (
            select case when workflow.failed + workflow.cancelled <= 0 then treadle.why_skipped(workflow.id) end as reason
        ) as skipped
        where workflow.id = any (p_ids)
    ) as ended
    where job.id = ended.id
      and job.finished_at is null;

    perform treadle.announce(p_ids);
end
$$;
