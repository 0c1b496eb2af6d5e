-- For workflows all of whose jobs have ended, whose rows are locked. A workflow is a job that no worker claims: it waits for its jobs,
-- and then it has completed, or failed if one of them did not complete. It stays held: if one of its jobs is retried, it waits again.
create or replace function treadle.end_workflows(p_ids uuid[]) returns void
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    -- The stored objects that their results refer to.
    insert into treadle.stored_uses (stored_id, job_id)
    select distinct known.stored_id, edge.job_id
    from treadle.jobs as job
    join treadle.dependencies as edge on edge.job_id = job.id
    join treadle.stored_uses as known on known.job_id = edge.after_id
    where job.id = any (p_ids)
      and job.keeps & treadle.keeps_inputs() <> 0
      and edge.arguments is not null
    on conflict do nothing;

    update treadle.jobs as job
    set status = case when ended.ok then 'completed' else 'failed' end,
        completed_at = case when ended.ok then clock_timestamp() end,
        started_at = coalesce(job.started_at, job.created_at),
        finished_at = clock_timestamp(),
        progress = case when ended.ok then 100 else job.progress end,
        current_stage = ended.stage,
        result = case
            when ended.ok and job.keeps & treadle.keeps_inputs() <> 0 then coalesce(
                treadle.results_for(job.id) -> 'result', case when job.data ? 'map' then '[]'::jsonb end
            )
        end,
        last_error = case when not ended.ok then coalesce(treadle.describe_end(treadle.failed_member(job.id)), 'a job failed') end
    from (
        select
            workflow.id,
            workflow.failed + workflow.cancelled <= 0 as ok,
            workflow.jobs || case when workflow.jobs = 1 then ' job' else ' jobs' end as stage
        from treadle.workflows as workflow
        where workflow.id = any (p_ids)
    ) as ended
    where job.id = ended.id
      and job.finished_at is null;

    perform treadle.announce(p_ids);
end
$$;

comment on function treadle.end_workflows(uuid[]) is 'Ends workflows all of whose jobs have ended.';
