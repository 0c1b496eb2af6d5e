-- For enqueue_with_options(): the workflow with this id, or the one that this job is a part of (id is null if there is
-- none). It cannot end before the transaction does. has_plan: it still has to add jobs by itself.
create or replace function treadle.find_workflow(p_id uuid, out id uuid, out has_ended boolean, out has_plan boolean)
language plpgsql
as $$
begin
    id := coalesce(
        (select workflow.id from treadle.workflows as workflow where workflow.id = p_id),
        (select edge.job_id from treadle.dependencies as edge where edge.after_id = p_id and edge.needs = 'member' limit 1)
    );

    -- While this lock is held, settle_workflows() skips the workflow.
    select workflow.has_plan
    into has_plan
    from treadle.workflows as workflow
    where workflow.id = find_workflow.id
    for key share;

    -- Not before it is locked.
    has_ended := exists (
        select
        from treadle.jobs as job
        where job.id = find_workflow.id
          and job.finished_at is not null
    );
end
$$;
