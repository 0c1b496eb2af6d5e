create or replace function treadle.pause(
    p_job_type varchar default null,
    p_queue varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
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

comment on function treadle.pause(varchar, varchar, text, text)
    is 'No more jobs of this type, in this queue (null: any), are claimed; those that are held go on. False: it was paused already.';

revoke all on function treadle.pause(varchar, varchar, text, text) from public;
