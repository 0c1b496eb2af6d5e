-- Enqueues the jobs of a workflow, and the workflow itself, which is a job that ends when all of them have ended.
--
-- p_blocks is a list of JSON objects, each with jobs of one type and with the same options: job_type; data, a list of JSON texts;
-- steps, a list of names; after, as p_after of enqueue_with_options(), where nth instead of id is the number of a job of this
-- workflow, from 0, and place instead of nth is the place in a list; priority, queue, run_at, delay, key, max_attempts, weight,
-- partitions, expires and expires_at; outputs, a list of places of their results in that of the workflow: null for none, -1 for the whole.
--
-- Returns the ids of the jobs, in this order, and at last that of the workflow. If a job that one of them waits for does not exist,
-- nothing is enqueued, and only its id is returned, with null for nth.
create or replace function treadle.enqueue_workflow(p_name varchar, p_blocks jsonb) returns table (nth int, id uuid)
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    v_block record;
    v_ids uuid[] := '{}';
    v_added uuid[];
    v_missing uuid;
    v_workflow uuid;
    v_steps text[] := '{}';
    v_output boolean := false;
begin
    begin
        for v_block in
            select block.*
            from jsonb_to_recordset(p_blocks) as block (
                job_type varchar, data text[], steps text[], after jsonb, priority int, queue varchar, run_at timestamptz,
                delay double precision, key varchar, max_attempts int, weight int, partitions text[], expires double precision,
                expires_at timestamptz, outputs int[]
            )
        loop
            select array_agg(added.id), (array_agg(added.id) filter (where added.is_new is null))[1]
            into v_added, v_missing
            from treadle.enqueue_with_options(
                v_block.job_type,
                v_block.data,
                p_expires => v_block.expires * interval '1 second',
                p_expires_at => v_block.expires_at,
                p_priority => coalesce(v_block.priority, 100),
                p_queue => coalesce(v_block.queue, 'default'),
                p_run_at => v_block.run_at,
                p_delay => v_block.delay * interval '1 second',
                p_keys => case when v_block.key is not null then array_fill(v_block.key, array[cardinality(v_block.data)]) end,
                p_max_attempts => coalesce(v_block.max_attempts, 3),
                p_partitions => v_block.partitions,
                p_weight => v_block.weight,
                p_after => (
                    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                        'id', coalesce(edge.id, v_ids[edge.nth + 1]), 'ok_to_fail', edge.ok_to_fail,
                        'arguments', edge.arguments, 'nth', edge.place
                    )))
                    from jsonb_to_recordset(v_block.after)
                        as edge (id uuid, nth int, ok_to_fail boolean, arguments jsonb, place int)
                )
            ) as added;
            if v_missing is not null or v_added is null then
                raise exception using errcode = 'TRD03';
            end if;
            v_steps := v_steps || v_block.steps;
            v_ids := v_ids || v_added;
            v_output := v_output or v_block.outputs is not null;
        end loop;

        insert into treadle.jobs (job_type, data, holds, keeps)
        values (
            'workflow',
            jsonb_build_object('name', p_name, 'jobs', cardinality(v_ids)),
            treadle.blocked_by_jobs(),
            treadle.keeps_dependencies() | treadle.keeps_members()
                | case when v_output then treadle.keeps_inputs() else 0::smallint end
        )
        returning jobs.id
        into v_workflow;
        insert into treadle.dependencies (job_id, after_id, needs, arguments, nth, step)
        select
            v_workflow,
            member.id,
            'member',
            case when output.place is not null then array['result'] end,
            case when output.place >= 0 then output.place end,
            member.step
        from unnest(v_ids, v_steps) with ordinality as member (id, step, nth)
        left join (
            select out.place, row_number() over (order by block.nth, out.nth) as nth
            from jsonb_array_elements(p_blocks) with ordinality as block (value, nth)
            cross join lateral jsonb_array_elements_text(block.value -> 'data') with ordinality as datum (text, nth)
            cross join lateral (select (block.value -> 'outputs' ->> (datum.nth - 1)::int)::int as place, datum.nth) as out
        ) as output on output.nth = member.nth;
        perform treadle.note_dependency_check(array[v_workflow], false);
    exception when sqlstate 'TRD03' then
        return query select null::int, v_missing;
        return;
    end;

    return query
    select added.nth::int - 1, added.id
    from unnest(v_ids || v_workflow) with ordinality as added (id, nth)
    order by added.nth;
end
$$;

comment on function treadle.enqueue_workflow(varchar, jsonb)
    is 'Enqueues the jobs of a workflow in their order, and the workflow. Returns their ids, at last that of the workflow; only the id of a job that does not exist, with null, if one waits for it.';

revoke all on function treadle.enqueue_workflow(varchar, jsonb) from public;
