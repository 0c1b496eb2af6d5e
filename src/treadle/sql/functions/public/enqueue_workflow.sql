-- Enqueues the jobs of a workflow in their order, and the workflow itself, which is a job that ends when all of them
-- have ended. Returns their ids, at last that of the workflow.
--
-- p_blocks is a list of JSON objects, each with jobs of one type and with the same options:
--
--   job_type, data   data is a list of JSON texts
--   part             of which workflow they are a part: 0 is this one, others are nested in it. Null: of none
--   steps, efforts   lists: what the workflow calls them, and how much of its work they are
--   positions        a list: the positions of their results in that of their workflow; null for none, -1 for the whole
--   grows            their workflow is a group: see add_members()
--   after            as in enqueue_with_options(), where nth instead of id is the number of a job of this workflow,
--                    from 0, and position instead of nth is the position in a list; -1 as nth is this workflow itself;
--                    grows, if that list is of the results of a group
--   priority, queue, run_at, delay, key, max_attempts, timeout, weight, partition, partitions, expires, expires_at, headers
--   signal           they wait for a signal; data has its name and the timeout in seconds
--   workflow         the number of a nested workflow, which this block is: its data has a name
--   plan             what a nested workflow does when it begins: see carry_out_plan(), with steps of undo as numbers
--   returns          a nested workflow has a result
--
-- p_options may have is_open, deadline (in seconds) and returns; or job: a job that becomes this workflow, which
-- replace_job() has prepared.
--
-- Returns the ids of the jobs, in this order, and at last that of the workflow. If a job that one of them waits for
-- does not exist, nothing is enqueued, and only its id is returned, with null for nth.
create or replace function treadle.enqueue_workflow(p_name varchar, p_blocks jsonb, p_options jsonb default '{}')
returns table (nth int, id uuid)
language plpgsql
security definer
as $$
declare
    v_block jsonb;
    v_own constant uuid := coalesce((p_options ->> 'job')::uuid, treadle.new_id());
    v_workflows uuid[]; -- by their number
    v_ids uuid[] := '{}';
    v_added uuid[];
    v_after jsonb;
    v_missing uuid;
    v_part jsonb;
begin
    begin
        select array_agg(case when number = 0 then v_own else treadle.new_id() end order by number)
        into v_workflows
        from generate_series(0, (
            select coalesce(max((block.value ->> 'workflow')::int), 0) from jsonb_array_elements(p_blocks) as block (value)
        )) as number;
        insert into treadle.workflows (id)
        select added.id
        from unnest(v_workflows) as added (id);
        if not p_options ? 'job' then
            perform treadle.add_workflow(
                v_own,
                jsonb_build_object('name', p_name),
                coalesce((p_options ->> 'returns')::boolean, false),
                p_open => coalesce((p_options ->> 'is_open')::boolean, false),
                p_deadline => (p_options ->> 'deadline')::double precision
            );
        end if;

        for v_block in
            select block.value
            from jsonb_array_elements(p_blocks) with ordinality as block (value, nth)
            order by block.nth
        loop
            perform treadle.check_results(given.after)
            from (values (nullif(v_block -> 'after', 'null')), (nullif(v_block -> 'plan' -> 'after', 'null'))) as given (after)
            where given.after is not null;
            select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                'id', coalesce(edge.id, case when edge.nth = -1 then v_own else v_ids[edge.nth + 1] end),
                'ok_to_fail', edge.ok_to_fail, 'if_failed', edge.if_failed, 'arguments', edge.arguments,
                'nth', edge.position, 'grows', edge.grows
            )))
            into v_after
            from jsonb_to_recordset(nullif(v_block -> 'after', 'null'))
                as edge (id uuid, nth int, ok_to_fail boolean, if_failed boolean, arguments jsonb, position int, grows boolean);
            select each.id
            into v_missing
            from jsonb_to_recordset(v_after) as each (id uuid)
            where not exists (select from treadle.jobs as job where job.id = each.id)
            limit 1;
            if found then
                raise exception using errcode = 'TRD03';
            end if;

            v_part := case
                when v_block ? 'part' then jsonb_strip_nulls(jsonb_build_object(
                    'id', v_workflows[(v_block ->> 'part')::int + 1], 'is_new', true, 'grows', v_block -> 'grows', 'efforts', v_block -> 'efforts'
                )) || jsonb_build_object('steps', v_block -> 'steps', 'positions', v_block -> 'positions')
            end;
            if v_block ? 'workflow' then
                v_added := array[v_workflows[(v_block ->> 'workflow')::int + 1]];
                perform treadle.add_workflow(
                    v_added[1],
                    (v_block -> 'data' ->> 0)::jsonb,
                    coalesce((v_block ->> 'returns')::boolean, false),
                    p_plan => case
                        when v_block -> 'plan' ? 'undo' then jsonb_build_object('of', v_own, 'undo', (
                            select jsonb_agg(undo.value || jsonb_build_object('step', v_ids[(undo.value ->> 'step')::int + 1]))
                            from jsonb_array_elements(v_block -> 'plan' -> 'undo') as undo (value)
                        ))
                        else v_block -> 'plan'
                    end,
                    p_after => v_after,
                    p_part => v_part
                );
            else
                v_added := array(
                    select added.id
                    from treadle.add_jobs(
                        v_block ->> 'job_type',
                        array(select jsonb_array_elements_text(v_block -> 'data')),
                        jsonb_populate_record(null::treadle.enqueue_options, v_block || jsonb_build_object(
                            'after', case when v_block ? 'signal' then coalesce(v_after, '[]') else v_after end,
                            'workflow', v_part
                        ))
                    ) as added
                );
            end if;
            if v_added = '{}' then
                raise exception using errcode = 'TRD03';
            end if;
            if v_block ? 'signal' then
                update treadle.jobs as job
                set flags = job.flags | treadle.flag_signal()
                where job.id = any (v_added);
            end if;
            v_ids := v_ids || v_added;
        end loop;
    exception when sqlstate 'TRD03' then
        return query select null::int, v_missing;
        return;
    end;

    perform treadle.note_dependency_check(v_workflows, false);
    return query
    select added.nth::int - 1, added.id
    from unnest(v_ids || v_own) with ordinality as added (id, nth)
    order by added.nth;
end
$$;
