-- Cancels jobs whose rows are locked, and that wait for jobs that have not ended as they need it. If such a job was
-- itself stopped, the reason names the one that was the cause. They stay held: whoever retries one makes it wait again.
create or replace function treadle.stop_waiting(p_ids uuid[], p_causes uuid[]) returns void
language plpgsql
set treadle.plan = nested_loops
as $$
begin
    update treadle.jobs as job
    set status = 'cancelled',
        finished_at = clock_timestamp(),
        flags = job.flags | stopped.skipped,
        last_error = case
                when stopped.skipped <> 0 and left(stopped.reason, 12) <> 'not needed: ' then 'not needed: '
                else ''
            end || stopped.reason
    from (
        select
            stopped.id,
            -- An error handler whose job completed, and what comes after it.
            case
                when treadle.outcome_of(cause.status, cause.flags) in ('completed', 'skipped') then treadle.flag_skipped()
                else 0::smallint
            end as skipped,
            treadle.describe_end(stopped.cause, ', which it waits for,') as reason
        from unnest(p_ids, p_causes) as stopped (id, cause)
        left join treadle.jobs as cause on cause.id = stopped.cause
    ) as stopped
    where job.id = stopped.id;

    update treadle.dependencies as edge
    set stopped = true
    from unnest(p_ids, p_causes) as stopped (id, cause)
    where edge.job_id = stopped.id
      and edge.after_id = stopped.cause;

    perform treadle.announce(p_ids);
end
$$;
