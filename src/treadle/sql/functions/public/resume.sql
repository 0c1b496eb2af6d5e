-- See pause.sql for the rights.
create or replace function treadle.resume(
    p_job_type varchar default null,
    p_queue varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language sql
security definer
as $$
    select treadle.set_paused(false, p_job_type, p_queue, p_actor, p_reason)
$$;

comment on function treadle.resume(varchar, varchar, text, text)
    is 'Ends the pause with exactly this job type and queue (null: any). Returns false if there is no such pause.';

revoke all on function treadle.resume(varchar, varchar, text, text) from public;
