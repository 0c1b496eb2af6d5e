-- For complete_jobs(): as note_member_change() for many jobs, with one row for each workflow.
create or replace function treadle.note_completed_members(p_ids uuid[]) returns void
language plpgsql
set enable_seqscan = off
as $$
begin
    insert into treadle.member_changes (workflow_id, noted_at, jobs, completed, failed, cancelled, work, done)
    select edge.job_id, clock_timestamp(), 0, count(*), 0, 0, 0, sum(edge.effort)
    from treadle.dependencies as edge
    where edge.after_id = any (p_ids)
      and edge.needs = 'member'
    group by edge.job_id;
end
$$;

comment on function treadle.note_completed_members(uuid[]) is 'Notes for the counts of workflows that these of their jobs have completed.';
