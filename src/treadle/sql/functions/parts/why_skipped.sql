-- Why none of the jobs of a workflow was needed: the reason of the last; null if one was, or if it has none.
create or replace function treadle.why_skipped(p_id uuid) returns text
language plpgsql stable
set treadle.plan = nested_loops
as $$
declare
    v_reason text;
begin
    for v_reason in
        select case when treadle.outcome_of(job.status, job.flags) = 'skipped' then job.last_error end
        from treadle.dependencies as edge
        join treadle.jobs as job on job.id = edge.after_id
        where edge.job_id = p_id
          and edge.needs = 'member'
        order by edge.after_id
    loop
        exit when v_reason is null; -- this one was needed
    end loop;
    return v_reason;
end
$$;
