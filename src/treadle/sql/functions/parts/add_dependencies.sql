-- Notes which jobs these new ones wait for. For enqueue_with_options(): p_after is a list of objects such as {"id":
-- "…", "ok_to_fail": true, "arguments": ["receipt"]}, or with if_failed.
create or replace function treadle.add_dependencies(p_ids uuid[], p_after jsonb) returns void
language plpgsql
as $$
begin
    insert into treadle.dependencies (job_id, after_id, needs, arguments, nth, grows)
    select
        job.id,
        each.id,
        case when each.ok_to_fail then 'ended' when each.if_failed then 'failed' else 'completed' end,
        each.arguments,
        each.nth,
        coalesce(each.grows, false)
    from unnest(p_ids) as job (id)
    cross join jsonb_to_recordset(p_after) as each (
        id uuid, ok_to_fail boolean, if_failed boolean, arguments varchar[], nth int, grows boolean
    )
    on conflict do nothing;

    perform treadle.note_dependency_check(p_ids, false);
end
$$;
