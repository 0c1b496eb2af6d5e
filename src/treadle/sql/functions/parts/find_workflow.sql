-- For enqueue_with_options(): the workflow with this id, or the one that this job is a part of (id is null if there is
-- none). It cannot end before the transaction does. has_plan: it still has to add jobs by itself. member: the job by
-- which it is a part of the workflow: itself; or a job that it replaces, unless it is one of a group in that one's place.
create or replace function treadle.find_workflow(
    p_id uuid,
    out id uuid,
    out has_ended boolean,
    out has_plan boolean,
    out member uuid
)
language plpgsql
as $$
declare
    v_above record;
begin
    select workflow.id
    into id
    from treadle.workflows as workflow
    where workflow.id = p_id;

    if not found then
        loop
            select edge.job_id, job.job_type
            into v_above
            from treadle.dependencies as edge
            join treadle.jobs as job on job.id = edge.job_id
            where edge.after_id = coalesce(find_workflow.id, p_id)
              and edge.needs = 'member'
            limit 1;
            exit when not found;
            member := coalesce(find_workflow.id, p_id);
            id := v_above.job_id;
            exit when v_above.job_type = 'workflow'
                or exists (select from treadle.dependencies as edge where edge.after_id = member and edge.grows);
        end loop;
    end if;

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
