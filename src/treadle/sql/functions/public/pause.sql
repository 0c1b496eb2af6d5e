-- Stops claims of this job type in this queue (null: any). Claimed jobs continue. Returns false if it was paused
-- already. Runs with the rights of its owner: nothing is paused without an audit row.
create or replace function treadle.pause(
    p_job_type varchar default null,
    p_queue varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language plpgsql
security definer
as $$
declare
    v_actor constant text := coalesce(p_actor, session_user);
begin
    insert into treadle.pauses (job_type, queue, paused_by, reason)
    values (coalesce(p_job_type, ''), coalesce(p_queue, ''), v_actor, p_reason)
    on conflict (job_type, queue) do nothing;
    if not found then
        return false;
    end if;

    insert into treadle.audit (actor, action, job_type, queue, reason)
    values (v_actor, 'pause', p_job_type, p_queue, p_reason);
    return true;
end
$$;
