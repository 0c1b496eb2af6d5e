-- Makes new jobs part of a workflow. p_workflow is an object such as {"id": "…", "steps": ["fetch", null], "positions":
-- [0, 1], "efforts": [1, 5]}, where the lists have an element for each job, or are missing: what the workflow calls
-- them; the positions of their results in its own, null for none, -1 for the whole; and how much of its work they are.
--
-- With "grows", these results are those of a group. With "by", the id of a job of the workflow that adds these: if it is
-- one of a group, so are they, after the others; and jobs that wait for the results of the group also wait for theirs.
-- (None of those can be freed before "by" has ended.)
create or replace function treadle.add_members(p_ids uuid[], p_workflow jsonb) returns void
language plpgsql
as $$
declare
    c_last constant int := 2147483647;
    v_id constant uuid := p_workflow ->> 'id';
    v_by constant uuid := p_workflow ->> 'by';
    v_grows constant boolean := exists (
        select
        from treadle.dependencies as edge
        where edge.job_id = v_id
          and edge.after_id = v_by
          and edge.grows
    );
begin
    with added as (
        insert into treadle.dependencies (job_id, after_id, needs, arguments, nth, grows, step, effort)
        select
            v_id,
            member.id,
            'member',
            case when position.nth is not null then array['result'] end,
            nullif(position.nth, -1),
            position.nth is not null and (v_grows or coalesce((p_workflow -> 'grows')::boolean, false)),
            p_workflow -> 'steps' ->> (member.nth - 1)::int,
            coalesce((p_workflow -> 'efforts' ->> (member.nth - 1)::int)::int, 1)
        from unnest(p_ids) with ordinality as member (id, nth)
        cross join lateral (
            select case when v_grows then c_last else (p_workflow -> 'positions' ->> (member.nth - 1)::int)::int end as nth
        ) as position
        returning effort
    )
    insert into treadle.member_changes (workflow_id, jobs, work)
    select v_id, count(*), sum(added.effort)
    from added
    having count(*) > 0;

    if v_by is not null then
        insert into treadle.dependencies (job_id, after_id, needs, arguments, nth, grows)
        select edge.job_id, member.id, edge.needs, edge.arguments, c_last, true
        from treadle.dependencies as edge
        join treadle.jobs as waiting on waiting.id = edge.job_id
        cross join unnest(p_ids) as member (id)
        where edge.after_id = v_by
          and edge.grows
          and edge.needs <> 'member'
          and treadle.is_waiting(waiting.status, waiting.holds);
    end if;
end
$$;
