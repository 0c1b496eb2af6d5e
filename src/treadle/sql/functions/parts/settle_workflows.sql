-- Decides about workflows whose rows in jobs the caller has locked: they begin, end, or watch another of their jobs.
--
-- How many jobs are left is known from counts, in whatever order they end. That one of them is watched only says when
-- to look: it is the last one that has not ended, in the order of ids, which is usually among the last to end. So a
-- workflow of a million jobs is looked at a few times. Those after p_past are known to have ended.
create or replace function treadle.settle_workflows(p_ids uuid[], p_past uuid default null) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    v_workflow treadle.workflows;
    v_seen uuid[] := '{}';
    v_ended uuid[] := '{}';
begin
    -- Transactions that add jobs have locked the row: it must not end before they do.
    for v_workflow in
        select workflow.*
        from treadle.workflows as workflow
        where workflow.id = any (p_ids)
        order by workflow.id
        for update skip locked
    loop
        v_seen := v_seen || v_workflow.id;
        if v_workflow.plan is not null then
            perform treadle.carry_out_plan(v_workflow.id, v_workflow.plan);
        end if;
        v_workflow := treadle.roll_up_workflow(v_workflow.id);

        if v_workflow.is_open then
            null; -- whoever closes it comes here again
        elsif v_workflow.jobs <= v_workflow.completed + v_workflow.failed + v_workflow.cancelled then
            v_ended := v_ended || v_workflow.id;
        else
            perform treadle.report_workflow(v_workflow);
            perform treadle.watch_member(v_workflow.id, p_past);
        end if;
    end loop;

    if v_ended <> '{}' then
        perform treadle.end_workflows(v_ended);
    end if;
    perform treadle.note_dependency_check(array_agg(other.id), false, p_past, true)
    from unnest(p_ids) as other (id)
    where other.id <> all (v_seen)
      and exists (select from treadle.workflows as workflow where workflow.id = other.id)
    having count(*) > 0;
end
$$;
