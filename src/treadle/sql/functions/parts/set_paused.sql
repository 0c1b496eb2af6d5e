-- Pauses or resumes, with a row in the audit. Runs with the rights of its owner: the pauses cannot be changed without an
-- audit row.
create or replace function treadle.set_paused(
    p_paused boolean,
    p_job_type varchar,
    p_queue varchar,
    p_actor text,
    p_reason text
) returns boolean
language plpgsql
security definer
as $$
declare
    v_actor constant text := coalesce(p_actor, session_user);
begin
    if p_paused then
        insert into treadle.pauses (job_type, queue, paused_by, reason)
        values (coalesce(p_job_type, ''), coalesce(p_queue, ''), v_actor, p_reason)
        on conflict (job_type, queue) do nothing;
    else
        delete from treadle.pauses
        where job_type = coalesce(p_job_type, '')
          and queue = coalesce(p_queue, '');
    end if;
    if not found then
        return false;
    end if;

    insert into treadle.audit (actor, action, job_type, queue, reason)
    values (v_actor, case when p_paused then 'pause' else 'resume' end, p_job_type, p_queue, p_reason);
    if not p_paused then
        perform treadle.wake_workers(clock_timestamp());
    end if;
    return true;
end
$$;

comment on function treadle.set_paused(boolean, varchar, varchar, text, text)
    is 'Pauses or resumes a job type, a queue, or both. Returns false if nothing changed.';

revoke all on function treadle.set_paused(boolean, varchar, varchar, text, text) from public;
