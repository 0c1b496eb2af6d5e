-- Writes the progress of a workflow into its row in jobs.
create or replace function treadle.report_workflow(p_workflow treadle.workflows) returns void
language plpgsql
as $$
declare
    v_ended constant int := p_workflow.completed + p_workflow.failed + p_workflow.cancelled;
    v_progress constant int := least(100, coalesce(100 * p_workflow.done / nullif(p_workflow.work, 0), 0));
    v_stage constant text := format('%s of %s job%s', v_ended, p_workflow.jobs, case when p_workflow.jobs <> 1 then 's' end);
begin
    update treadle.jobs as job
    set progress = v_progress,
        current_stage = v_stage
    where job.id = p_workflow.id
      and job.finished_at is null
      and (job.progress, job.current_stage) is distinct from (v_progress, v_stage);
    if found then
        perform treadle.announce(array[p_workflow.id], 'news');
    end if;
end
$$;
