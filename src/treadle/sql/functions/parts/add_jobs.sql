-- Enqueues jobs with options, for enqueue_with_options(), which describes the options, and for workflows and schedules,
-- whose jobs have the same options.
create or replace function treadle.add_jobs(p_job_type varchar, p_data text[], p_options treadle.enqueue_options)
returns table (id uuid, is_new boolean, is_changed boolean)
language plpgsql
as $$
declare
    v_job treadle.jobs;
    v_now timestamptz;
    v_partitions varchar[];
    v_ids uuid[];
    v_new boolean[];
    v_changed boolean[];
    v_added uuid[];
    v_missing uuid;
    v_workflow record;
    v_has_plan boolean;
begin
    p_options := treadle.check_options(p_data, p_options);

    if p_options.after is not null then
        select each.id
        into v_missing
        from jsonb_to_recordset(p_options.after) as each (id uuid)
        where not exists (select from treadle.jobs as job where job.id = each.id)
        limit 1;
        if found then
            return query select v_missing, null::boolean, null::boolean;
            return;
        end if;
        v_job.holds := treadle.blocked_by_jobs();
        v_job.flags := treadle.flag_dependencies() | case
            when jsonb_path_exists(p_options.after, '$[*].arguments') then treadle.flag_inputs()
            else 0
        end;
    end if;

    if p_options.workflow is not null then
        -- On an older snapshot it cannot be seen whether it has ended.
        if p_options.workflow -> 'is_new' is null and not treadle.is_read_committed() then
            raise exception 'jobs cannot be added to a workflow in a transaction that is %',
                current_setting('transaction_isolation')
                using errcode = 'feature_not_supported',
                      hint = 'Add them in a READ COMMITTED transaction.';
        end if;
        v_workflow := treadle.find_workflow((p_options.workflow ->> 'id')::uuid);
        if v_workflow.id is null or v_workflow.has_ended then
            return query
            select (p_options.workflow ->> 'id')::uuid, null::boolean, case when v_workflow.has_ended then false end;
            return;
        end if;
        p_options.workflow := p_options.workflow || jsonb_strip_nulls(jsonb_build_object(
            'id', v_workflow.id,
            'by', v_workflow.member
        ));
        v_has_plan := v_workflow.has_plan;
        v_job.flags := coalesce(v_job.flags, 0) | treadle.flag_member() | treadle.flag_counting();
    end if;

    if p_options.all_or_none then
        begin
            p_options.all_or_none := false;
            p_options.on_conflict := '{}';
            select array_agg(added.id), array_agg(added.is_new)
            into v_ids, v_new
            from treadle.add_jobs(p_job_type, p_data, p_options) as added;
            if false = any (v_new) then
                raise exception using errcode = 'TRD01'; -- undone here, seen by nobody
            end if;
        exception when sqlstate 'TRD01' then
            v_new := array(
                select nullif(each.is_new, true)
                from unnest(v_new) with ordinality as each (is_new, nth)
                order by each.nth
            );
        end;
        return query
        select added.id, added.is_new, false
        from unnest(v_ids, v_new) with ordinality as added (id, is_new, nth)
        order by added.nth;
        return;
    end if;

    -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
    perform pg_current_xact_id();
    v_now := clock_timestamp();
    v_job.job_type := p_job_type;
    v_job.priority := p_options.priority;
    v_job.queue := p_options.queue;
    v_job.max_attempts := p_options.max_attempts;
    v_job.created_at := v_now;
    v_job.run_at := greatest(coalesce(p_options.run_at, v_now + p_options.delay, v_now), v_now);
    v_job.expires_at := coalesce(p_options.expires_at, v_job.run_at + p_options.expires);
    v_job.weight := p_options.weight;
    v_job.timeout := p_options.timeout;
    v_job.headers := p_options.headers;
    v_job.origin := p_options.origin;
    v_job.unique_while := case when p_options.unique_while = 'pending' and p_options.period is null then 'pending' end;
    v_partitions := treadle.partitions_of(p_job_type, p_options.queue, p_data, p_options.partitions);

    -- Which of them are new is known only then. If there is no room for those, it is undone.
    begin
        if p_options.unique_keys is null then
            v_ids := array(
                select added.id from treadle.insert_jobs(v_job, p_data, p_options.keys, v_partitions) as added
            );
        elsif p_options.period is not null then
            select array_agg(added.id order by added.nth), array_agg(added.is_new order by added.nth)
            into v_ids, v_new
            from treadle.enqueue_per_period(v_job, p_data, v_partitions, p_options) as added;
        else
            select
                array_agg(added.id order by added.nth), array_agg(added.is_new order by added.nth),
                array_agg(added.is_changed order by added.nth)
            into v_ids, v_new, v_changed
            from treadle.enqueue_unless_exists(v_job, p_data, v_partitions, p_options) as added;
        end if;
        v_added := array(
            select added.id
            from unnest(v_ids, v_new) with ordinality as added (id, is_new, nth)
            where coalesce(added.is_new, true)
            order by added.nth
        );

        -- Not for jobs that a workflow adds by itself, which was accepted, or a schedule.
        if v_partitions is not null
            and v_has_plan is not true
            and p_options.origin is null
            and not treadle.make_room(
                p_job_type,
                p_options.queue,
                p_options.priority,
                array(select job.partition from treadle.jobs as job where job.id = any (v_added)),
                v_ids
            )
        then
            raise exception using errcode = 'TRD02';
        end if;

        if p_options.after is not null then
            perform treadle.add_dependencies(v_added, p_options.after);
        end if;
        if p_options.workflow is not null then
            perform treadle.add_members(v_added, p_options.workflow);
        end if;
    exception when sqlstate 'TRD02' then
        return;
    end;

    return query
    select added.id, coalesce(added.is_new, true), coalesce(added.is_changed, false)
    from unnest(v_ids, v_new, v_changed) with ordinality as added (id, is_new, is_changed, nth)
    order by added.nth;
end
$$;
