-- For jobs whose rows are locked, and that wait for jobs that did not complete. If such a job was itself stopped, the reason names
-- the one that was the cause. They stay held: whoever retries one makes it wait again.
create or replace function treadle.stop_waiting(p_ids uuid[], p_causes uuid[]) returns void
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    update treadle.jobs as job
    set status = 'cancelled',
        finished_at = clock_timestamp(),
        last_error = treadle.describe_end(stopped.cause, ', which it waits for,')
    from unnest(p_ids, p_causes) as stopped (id, cause)
    where job.id = stopped.id;

    update treadle.dependencies as edge
    set stopped = true
    from unnest(p_ids, p_causes) as stopped (id, cause)
    where edge.job_id = stopped.id
      and edge.after_id = stopped.cause;

    perform treadle.announce(p_ids);
end
$$;

comment on function treadle.stop_waiting(uuid[], uuid[]) is 'Cancels jobs that wait for jobs that did not complete.';
