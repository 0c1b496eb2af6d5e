-- Counts the jobs of a workflow again, after they were changed while triggers were off, at any time. Returns false if
-- there is no such workflow. Of a job that was deleted, nobody knows how it ended: if the counts have not included it
-- so far, it counts as cancelled.
create or replace function treadle.recount_workflow(p_id uuid) returns boolean
language plpgsql
as $$
begin
    -- In the order in which others lock them.
    perform
    from treadle.jobs as job
    where job.id = p_id
    for no key update;
    perform
    from treadle.workflows as workflow
    where workflow.id = p_id
    for update;
    if not found then
        return false;
    end if;

    with gone as (
        delete from treadle.member_changes as change
        where change.workflow_id = p_id
        returning change.completed, change.failed
    ),
    noted as (
        select coalesce(sum(gone.completed), 0) as completed, coalesce(sum(gone.failed), 0) as failed
        from gone
    ),
    counted as (
        select outcomes.*
        from treadle.count_outcomes(p_id, null) as outcomes
    ),
    deleted as (
        select
            counted.*, so_far.completed as deleted_completed,
            least(so_far.failed, counted.deleted - so_far.completed) as deleted_failed
        from counted
        cross join noted
        join treadle.workflows as workflow on workflow.id = p_id
        cross join lateral (
            select
                least(greatest(workflow.completed + noted.completed - counted.completed, 0), counted.deleted) as completed,
                greatest(workflow.failed + noted.failed - counted.failed, 0) as failed
        ) as so_far
    )
    update treadle.workflows as workflow
    set jobs = deleted.jobs,
        completed = deleted.completed + deleted.deleted_completed,
        failed = deleted.failed + deleted.deleted_failed,
        cancelled = deleted.cancelled + deleted.deleted - deleted.deleted_completed - deleted.deleted_failed,
        work = deleted.work,
        done = deleted.done
    from deleted
    where workflow.id = p_id;

    perform treadle.note_dependency_check(array[p_id], false);
    return true;
end
$$;
