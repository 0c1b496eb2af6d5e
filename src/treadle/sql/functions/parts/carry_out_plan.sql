-- Adds the jobs of a workflow that are only known when it begins. The row of the workflow is locked.
--
-- A plan is an object with job_type, data and options as in p_blocks of enqueue_workflow(), and with argument: one job
-- is added for each element of a list, which is that argument; the list is the result that the workflow takes as
-- "over". They are added in parts, and begun says how many there are. Or a plan has undo, a list of such objects, each
-- with step, the id of a job, and arguments, which get its result: for those that have completed, in the reverse order
-- of their completion, one job each is added, which waits for the one before. That of an empty group is {}.
create or replace function treadle.carry_out_plan(p_id uuid, p_plan jsonb) returns void
language plpgsql
as $$
declare
    c_part constant int := 1000;
    v_begun constant int := coalesce((p_plan ->> 'begun')::int, 0);
    v_over jsonb;
    v_data text[];
    v_added uuid[];
    v_undo record;
    v_last uuid;
begin
    if p_plan ? 'undo' then
        for v_undo in
            select planned.value, job.id
            from jsonb_array_elements(p_plan -> 'undo') as planned (value)
            join treadle.jobs as job on job.id = (planned.value ->> 'step')::uuid
            where job.status = 'completed'
              and exists (
                    select
                    from treadle.jobs as failed
                    where failed.id = (p_plan ->> 'of')::uuid
                      and failed.status <> 'completed'
              )
            order by job.completed_at desc, job.id desc
        loop
            v_last := added.id
            from treadle.add_jobs(
                v_undo.value ->> 'job_type',
                array[v_undo.value ->> 'data'],
                jsonb_populate_record(null::treadle.enqueue_options, v_undo.value || jsonb_build_object(
                    'after',
                    case when v_last is null then '[]' else jsonb_build_array(jsonb_build_object('id', v_last)) end
                        || jsonb_strip_nulls(jsonb_build_object('id', v_undo.id, 'arguments', v_undo.value -> 'arguments')),
                    'workflow', jsonb_build_object('id', p_id)
                ))
            ) as added;
        end loop;
    elsif p_plan ? 'job_type' then
        v_over := treadle.results_for(p_id) -> 'over';
        if jsonb_typeof(v_over) is distinct from 'array' then
            raise exception 'map needs a list, but got %', coalesce(left(nullif(v_over, 'null')::text, 100), 'nothing')
                using errcode = 'TRD04';
        end if;

        v_data := array(
            select ((p_plan ->> 'data')::jsonb || jsonb_build_object(p_plan ->> 'argument', element.value))::text
            from jsonb_array_elements(v_over) with ordinality as element (value, nth)
            where element.nth > v_begun
            order by element.nth
            limit c_part
        );
        if v_data <> '{}' then
            v_added := array(
                select added.id
                from treadle.add_jobs(
                    p_plan ->> 'job_type',
                    v_data,
                    jsonb_populate_record(null::treadle.enqueue_options, p_plan || jsonb_build_object(
                        'workflow',
                        jsonb_build_object(
                            'id', p_id,
                            'positions',
                            (select jsonb_agg(v_begun + nth - 1) from generate_series(1, cardinality(v_data)) as nth)
                        )
                    ))
                ) as added
            );
        end if;
        if v_begun + coalesce(cardinality(v_added), 0) < jsonb_array_length(v_over) then
            update treadle.workflows as workflow
            set plan = p_plan || jsonb_build_object('begun', v_begun + coalesce(cardinality(v_added), 0))
            where workflow.id = p_id;
            perform treadle.note_dependency_check(array[p_id], false, p_later => true);
            return;
        end if;
    end if;

    update treadle.workflows as workflow
    set is_open = false,
        plan = null
    where workflow.id = p_id;
exception when others then
    -- Such as an element that is too long for a limit. Whoever retries it tries it again.
    update treadle.jobs as job
    set status = 'failed',
        finished_at = clock_timestamp(),
        last_error = case when sqlstate <> 'TRD04' then 'its jobs could not be added: ' else '' end || sqlerrm
    where job.id = p_id;
    perform treadle.announce(array[p_id]);
end
$$;
