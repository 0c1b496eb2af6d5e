-- Adds what has changed to the counts of a workflow, and returns it. The row of the workflow is locked by the
-- caller. What was noted before p_since is left: an open snapshot may keep what was deleted there, and it would be
-- read each time.
create or replace function treadle.roll_up_workflow(p_id uuid, p_since timestamptz default '-infinity')
returns treadle.workflows
language plpgsql
as $$
declare
    v_workflow treadle.workflows;
    v_changed boolean;
begin
    with gone as (
        delete from treadle.member_changes as change
        where change.workflow_id = p_id
          and change.noted_at >= p_since
        returning change.*
    ),
    total as (
        select
            sum(gone.jobs) as jobs, sum(gone.completed) as completed, sum(gone.failed) as failed,
            sum(gone.cancelled) as cancelled,
            sum(gone.work) as work, sum(gone.done) as done
        from gone
        having count(*) > 0
    )
    update treadle.workflows as workflow
    set jobs = workflow.jobs + total.jobs,
        completed = workflow.completed + total.completed,
        failed = workflow.failed + total.failed,
        cancelled = workflow.cancelled + total.cancelled,
        work = workflow.work + total.work,
        done = workflow.done + total.done
    from total
    where workflow.id = p_id
    returning true
    into v_changed;

    select workflow.*
    into v_workflow
    from treadle.workflows as workflow
    where workflow.id = p_id;

    -- Jobs that were added while somebody cancelled it, or that were left.
    if v_changed then
        perform treadle.cancel_members(p_id, job.last_error, 1000)
        from treadle.jobs as job
        where job.id = p_id
          and job.status = 'cancelled'
          and v_workflow.jobs > v_workflow.completed + v_workflow.failed + v_workflow.cancelled;
    end if;
    return v_workflow;
end
$$;
