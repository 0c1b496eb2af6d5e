-- p_old and p_new as outcome_of() returns them; null for a job that was deleted before it ended.
-- Runs with the rights of its owner: whoever ends a job may not know of which workflow it is a part.
create or replace function treadle.note_member_change(p_id uuid, p_old varchar, p_new varchar) returns void
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    c_ended constant varchar[] := array['completed', 'skipped', 'failed', 'cancelled'];
    v_new constant varchar := coalesce(p_new, 'cancelled');
begin
    insert into treadle.member_changes (workflow_id, noted_at, jobs, completed, failed, cancelled, work, done)
    select
        edge.job_id,
        clock_timestamp(),
        0,
        (v_new in ('completed', 'skipped'))::int - (p_old in ('completed', 'skipped'))::int,
        (v_new = 'failed')::int - (p_old = 'failed')::int,
        (v_new = 'cancelled')::int - (p_old = 'cancelled')::int,
        0,
        edge.effort * ((v_new = any (c_ended))::int - (p_old = any (c_ended))::int)
    from treadle.dependencies as edge
    where edge.after_id = p_id
      and edge.needs = 'member';
end
$$;

comment on function treadle.note_member_change(uuid, varchar, varchar)
    is 'Notes for the counts of a workflow that one of its jobs has ended, or was retried.';

revoke all on function treadle.note_member_change(uuid, varchar, varchar) from public;
