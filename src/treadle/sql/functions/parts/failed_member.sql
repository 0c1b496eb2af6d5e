-- The first job of a workflow that did not complete.
create or replace function treadle.failed_member(p_id uuid) returns uuid
language plpgsql stable
set treadle.plan = nested_loops
as $$
declare
    v_failed uuid;
begin
    -- check_ended() marks it; unless it is only just about to.
    select edge.after_id
    into v_failed
    from treadle.dependencies as edge
    where edge.job_id = p_id
      and edge.stopped
    order by edge.after_id
    limit 1;
    if not found then
        select edge.after_id
        into v_failed
        from treadle.dependencies as edge
        left join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = p_id
          and edge.needs = 'member'
          and coalesce(treadle.outcome_of(job.status, job.flags) in ('failed', 'cancelled'), true)
        order by edge.after_id
        limit 1;
    end if;
    return v_failed;
end
$$;
