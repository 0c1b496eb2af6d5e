-- Makes new jobs part of a workflow. p_workflow is an object such as {"id": "…", "steps": ["fetch", null], "positions":
-- [0, 1], "efforts": [1, 5]}, where the lists have an element for each job, or are missing: what the workflow calls
-- them; the positions of their results in its own, null for none, -1 for the whole; and how much of its work they are.
create or replace function treadle.add_members(p_ids uuid[], p_workflow jsonb) returns void
language plpgsql
as $$
declare
    v_id constant uuid := p_workflow ->> 'id';
begin
    with added as (
        insert into treadle.dependencies (job_id, after_id, needs, arguments, nth, step, effort)
        select
            v_id,
            member.id,
            'member',
            case when position.nth is not null then array['result'] end,
            nullif(position.nth, -1),
            p_workflow -> 'steps' ->> (member.nth - 1)::int,
            coalesce((p_workflow -> 'efforts' ->> (member.nth - 1)::int)::int, 1)
        from unnest(p_ids) with ordinality as member (id, nth)
        cross join lateral (select (p_workflow -> 'positions' ->> (member.nth - 1)::int)::int as nth) as position
        returning effort
    )
    insert into treadle.member_changes (workflow_id, jobs, work)
    select v_id, count(*), sum(added.effort)
    from added
    having count(*) > 0;
end
$$;
