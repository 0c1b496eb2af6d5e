-- Trigger: deletes the errors, events, log lines, steps, dependencies, workflows and uses of stored objects of deleted
-- jobs. The row of a job says what it has, so a job that has nothing costs nothing. Stored objects that only these jobs
-- used are swept later.
create or replace function treadle.drop_belongings() returns trigger
language plpgsql
set treadle.plan = nested_loops
as $$
begin
    delete from treadle.errors as error
    using old_jobs as job
    where error.job_id = job.id
      and job.last_error is not null;

    delete from treadle.grouped_errors as counted
    using old_jobs as job
    where counted.job_id = job.id
      and job.last_error is not null;

    delete from treadle.events as event
    using old_jobs as job
    where event.job_id = job.id
      and job.flags & treadle.flag_events() <> 0;

    delete from treadle.logs as line
    using old_jobs as job
    where line.job_id = job.id
      and job.flags & treadle.flag_logs() <> 0;

    delete from treadle.steps as step
    using old_jobs as job
    where step.job_id = job.id
      and job.flags & treadle.flag_steps() <> 0;

    -- A workflow that somebody has deleted: its jobs are on their own. First this, which waits for transactions that
    -- add jobs to it.
    if exists (select from old_jobs as job where job.flags & treadle.flag_workflow() <> 0) then
        delete from treadle.workflows as workflow
        using old_jobs as job
        where workflow.id = job.id;
        delete from treadle.member_changes as change
        using old_jobs as job
        where change.workflow_id = job.id;
    end if;

    with dropped as (
        delete from treadle.dependencies as edge
        using old_jobs as job
        where edge.job_id = job.id
          and job.flags & treadle.flag_dependencies() <> 0
        returning edge.after_id, edge.needs
    )
    update treadle.jobs as job
    set flags = job.flags & ~(treadle.flag_member() | treadle.flag_counting())
    from dropped
    where job.id = dropped.after_id
      and dropped.needs = 'member';

    -- Ids are ordered by time, and so are batches of pruned jobs: one search in the range of their ids shows whether
    -- any of them used a stored object. So jobs without one cost one index search per statement, not one per job.
    perform
    from treadle.stored_uses as use
    where use.job_id >= (select job.id from old_jobs as job order by job.id limit 1)
      and use.job_id <= (select job.id from old_jobs as job order by job.id desc limit 1)
    limit 1;

    if found then
        delete from treadle.stored_uses as use
        using old_jobs as job
        where use.job_id = job.id;
    end if;
    return null;
end
$$;

create or replace trigger drop_belongings
    after delete on treadle.jobs
    referencing old table as old_jobs
    for each statement
    execute function treadle.drop_belongings();
