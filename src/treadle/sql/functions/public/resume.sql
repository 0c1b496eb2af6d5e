-- Ends the pause with exactly this job type and queue (null: any). Returns false if there is no such pause. Runs with
-- the rights of its owner, as pause().
create or replace function treadle.resume(
    p_job_type varchar default null,
    p_queue varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language plpgsql
security definer
as $$
begin
    delete from treadle.pauses as pause
    where pause.job_type = coalesce(p_job_type, '')
      and pause.queue = coalesce(p_queue, '');
    if not found then
        return false;
    end if;

    insert into treadle.audit (actor, action, job_type, queue, reason)
    values (coalesce(p_actor, session_user), 'resume', p_job_type, p_queue, p_reason);
    perform treadle.wake_workers(clock_timestamp());
    return true;
end
$$;
