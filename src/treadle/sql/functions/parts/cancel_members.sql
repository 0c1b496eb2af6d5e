-- Cancels the jobs of a workflow that have not ended: p_limit of them, and not those that somebody has locked. The
-- others are left to the next tick. So nothing waits, and a workflow of a million jobs is cancelled in parts.
create or replace function treadle.cancel_members(p_id uuid, p_reason text, p_limit int) returns void
language plpgsql
set treadle.plan = nested_loops
as $$
declare
    v_ids constant uuid[] := array(
        select job.id
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = p_id
          and edge.needs = 'member'
          and job.finished_at is null
        order by edge.after_id
        limit p_limit
        for no key update of job skip locked
    );
begin
    perform treadle.cancel_job(cancelled.id, p_reason)
    from unnest(v_ids) as cancelled (id);

    -- Each that was cancelled has noted that the workflow has changed, so that the next tick looks at it again. If all
    -- were locked, or none is left, this does; without it, locked ones would be forgotten.
    if v_ids = '{}' then
        insert into treadle.member_changes (workflow_id)
        values (p_id);
    end if;
end
$$;
