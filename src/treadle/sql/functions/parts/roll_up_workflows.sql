-- Adds up what has changed in workflows since then, and reports their progress. A part of ticks. What is older than
-- p_since was left because somebody had locked the workflow, or was committed late.
create or replace function treadle.roll_up_workflows(p_since timestamptz) returns void
language plpgsql
as $$
declare
    c_workflows constant int := 50;
    v_id uuid;
begin
    -- Of workflows that were deleted meanwhile.
    if p_since = '-infinity' then
        delete from treadle.member_changes as change
        where change.noted_at < clock_timestamp() - interval '1 minute'
          and not exists (select from treadle.workflows as workflow where workflow.id = change.workflow_id);
    end if;

    for v_id in
        select job.id
        from treadle.jobs as job
        where job.id in (
            select distinct change.workflow_id
            from (
                select change.workflow_id
                from treadle.member_changes as change
                where change.noted_at >= coalesce(p_since, '-infinity')
                order by change.noted_at
                limit 10000
            ) as change
            limit c_workflows
        )
        order by job.id
        for no key update skip locked
    loop
        perform
        from treadle.workflows as workflow
        where workflow.id = v_id
        for no key update skip locked;
        if found then
            perform treadle.report_workflow(treadle.roll_up_workflow(v_id, coalesce(p_since, '-infinity')));
        end if;
    end loop;
end
$$;
