-- Notes for the counts of workflows that these of their jobs have ended, or were retried: one row for each workflow.
-- p_old and p_new as outcome_of() returns them; null for jobs that were deleted before they ended.
--
-- Runs with the rights of its owner: whoever ends a job may not know of which workflow it is a part.
create or replace function treadle.note_member_changes(p_ids uuid[], p_old varchar, p_new varchar) returns void
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    c_completed constant varchar[] := '{completed,skipped}';
    c_ended constant varchar[] := '{completed,skipped,failed,cancelled}';
    v_new constant varchar := coalesce(p_new, 'cancelled');
begin
    insert into treadle.member_changes (workflow_id, completed, failed, cancelled, done)
    select
        edge.job_id,
        count(*) * ((v_new = any (c_completed))::int - (p_old = any (c_completed))::int),
        count(*) * ((v_new = 'failed')::int - (p_old = 'failed')::int),
        count(*) * ((v_new = 'cancelled')::int - (p_old = 'cancelled')::int),
        sum(edge.effort) * ((v_new = any (c_ended))::int - (p_old = any (c_ended))::int)
    from treadle.dependencies as edge
    where edge.after_id = any (p_ids)
      and edge.needs = 'member'
    group by edge.job_id;
end
$$;
