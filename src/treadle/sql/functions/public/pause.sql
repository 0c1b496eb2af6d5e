-- Runs with the rights of its owner, as set_paused() does. After an upgrade, until `treadle roles` is applied again, the
-- caller has no right to call that function.
create or replace function treadle.pause(
    p_job_type varchar default null,
    p_queue varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language sql
security definer
as $$
    select treadle.set_paused(true, p_job_type, p_queue, p_actor, p_reason)
$$;

comment on function treadle.pause(varchar, varchar, text, text)
    is 'Stops claims of this job type in this queue (null: any). Claimed jobs continue. Returns false if it was paused already.';

revoke all on function treadle.pause(varchar, varchar, text, text) from public;
