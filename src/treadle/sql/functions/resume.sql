create or replace function treadle.resume(
    p_job_type varchar default null,
    p_queue varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from treadle.pauses
    where job_type = coalesce(p_job_type, '')
      and queue = coalesce(p_queue, '');
    if not found then
        return false;
    end if;

    insert into treadle.audit (actor, action, job_type, queue, reason)
    values (coalesce(p_actor, session_user), 'resume', p_job_type, p_queue, p_reason);
    perform treadle.ring(clock_timestamp());
    return true;
end
$$;

comment on function treadle.resume(varchar, varchar, text, text)
    is 'Ends the pause of this type, in this queue (null: any), as it was made. False: there is none.';

revoke all on function treadle.resume(varchar, varchar, text, text) from public;
