-- Enqueues jobs of one type with the options that enqueue_jobs() does not have: unique keys in all their forms, and expiry.
-- Returns one row per element of p_data, in that order: the job, whether it is new, and whether an existing one was changed. No row
-- if max_pending is reached.
--
-- p_unique has a unique key for each job. What is unique depends on p_while and p_period:
--
--   unfinished   one job of this type with this key that is not finished
--   pending      one that no worker has claimed yet
--   p_period     at most p_per_period jobs enqueued within any period of this length, whatever has become of them
--
-- p_on_conflict says how a job that exists is changed, if it is still pending: replace (its payload), reschedule (to the time of
-- this call, but not later than p_latest after it was enqueued) and prioritize (its priority becomes the higher of the two).
-- With p_all_or_none, nothing is enqueued if one of the jobs exists: is_new is false for those that do, and null for the others.
--
-- p_partitions has a JSON object for each job, with values for the parts of its partition that are not arguments. p_weight says
-- how much of its limits a job uses.
--
-- p_after has the jobs that these wait for, as a list of JSON objects: id; ok_to_fail, if it may also fail, or if_failed, if it must
-- not complete; arguments, a list of the arguments that get its result; nth, if these are lists, and that is its place. If one of
-- them does not exist, nothing is enqueued, and its id is returned with null for is_new.
--
-- p_workflow makes them part of a workflow, or of the one that a job is part of: a JSON object with its id (see add_members()). If it
-- does not exist, nothing is enqueued, and its id is returned with null for is_new; if it has ended, with false for is_changed.
--
-- Runs with the rights of its owner: a role that may only enqueue cannot read unique keys, which are data of the user.
create or replace function treadle.enqueue_with_options(
    p_job_type varchar,
    p_data text[],
    p_unique varchar[] default null,
    p_while varchar default 'unfinished',
    p_period interval default null,
    p_per_period int default 1,
    p_on_conflict varchar[] default '{}',
    p_latest interval default null,
    p_all_or_none boolean default false,
    p_expires interval default null,
    p_expires_at timestamptz default null,
    p_priority int default 100,
    p_queue varchar default 'default',
    p_run_at timestamptz default null,
    p_delay interval default null,
    p_keys varchar[] default null,
    p_max_attempts int default 3,
    p_partitions text[] default null,
    p_weight int default null,
    p_after jsonb default null,
    p_workflow jsonb default null,
    p_headers jsonb default null -- of each of them
) returns table (id uuid, is_new boolean, is_changed boolean)
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    -- Perhaps. Not for jobs that a workflow adds by itself: it was accepted.
    v_bounded boolean := treadle.partition_parts(p_job_type, p_queue) is not null;
    v_now timestamptz;
    v_template treadle.jobs;
    v_ids uuid[];
    v_new boolean[];
    v_changed boolean[];
    v_missing uuid;
    v_workflow record;
begin
    if p_max_attempts < 1 then
        raise exception 'p_max_attempts must be 1 or more, got %', p_max_attempts
            using errcode = 'invalid_parameter_value';
    end if;
    if p_while not in ('unfinished', 'pending') or p_while is null then
        raise exception 'p_while must be unfinished or pending, got %', coalesce(p_while, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if not coalesce(p_on_conflict, '{}') <@ array['replace', 'reschedule', 'prioritize']::varchar[] then
        raise exception 'p_on_conflict must contain replace, reschedule or prioritize only, got %', p_on_conflict
            using errcode = 'invalid_parameter_value';
    end if;
    if p_data is null or p_keys is not null and cardinality(p_keys) <> cardinality(p_data) then
        raise exception 'p_data must be an array of JSON texts, and p_keys must have as many elements'
            using errcode = 'invalid_parameter_value';
    end if;
    if p_unique is not null
        and (
            cardinality(p_unique) <> cardinality(p_data)
            or array_position(p_unique, null) is not null
            or array_position(p_unique, '') is not null
        )
    then
        raise exception 'p_unique must have one text for each element of p_data, which must not be null or empty'
            using errcode = 'invalid_parameter_value';
    end if;
    if p_period is not null
        and (
            p_unique is null
            or p_on_conflict <> '{}'
            or (p_per_period between 1 and 1000) is not true
            or p_period <= interval '0'
        )
    then
        raise exception 'p_period must be longer than 0; it needs p_unique, p_per_period from 1 to 1000, and no p_on_conflict'
            using errcode = 'invalid_parameter_value';
    end if;
    if p_weight < 1 then
        raise exception 'p_weight must be 1 or more, got %', p_weight
            using errcode = 'invalid_parameter_value';
    end if;
    if p_partitions is not null and cardinality(p_partitions) <> cardinality(p_data) then
        raise exception 'p_partitions must have as many elements as p_data'
            using errcode = 'invalid_parameter_value';
    end if;
    if jsonb_typeof(p_headers) <> 'object' or octet_length(p_headers::text) > 8192 then
        raise exception 'p_headers must be an object of at most 8192 bytes, got % of %', jsonb_typeof(p_headers),
            octet_length(p_headers::text)
            using errcode = 'invalid_parameter_value';
    end if;
    if p_expires < interval '0' then
        raise exception 'p_expires must not be negative, got %', p_expires
            using errcode = 'invalid_parameter_value';
    end if;

    if p_after is not null then
        select each.id
        into v_missing
        from jsonb_to_recordset(p_after) as each (id uuid)
        where not exists (select from treadle.jobs as job where job.id = each.id)
        limit 1;
        if found then
            return query select v_missing, null::boolean, null::boolean;
            return;
        end if;
        v_template.holds := treadle.blocked_by_jobs();
        v_template.flags := treadle.flag_dependencies() | case
            when jsonb_path_exists(p_after, '$[*].arguments') then treadle.flag_inputs()
            else 0
        end;
    end if;

    if p_workflow is not null then
        -- On an older snapshot it cannot be seen whether it has ended.
        if p_workflow -> 'is_new' is null and not treadle.is_read_committed() then
            raise exception 'jobs cannot be added to a workflow in a transaction that is %', current_setting('transaction_isolation')
                using errcode = 'feature_not_supported',
                      hint = 'Add them in a READ COMMITTED transaction.';
        end if;
        v_workflow := treadle.find_workflow((p_workflow ->> 'id')::uuid);
        if v_workflow.id is null or v_workflow.has_ended then
            return query
            select (p_workflow ->> 'id')::uuid, null::boolean, case when v_workflow.has_ended then false end;
            return;
        end if;
        p_workflow := p_workflow || jsonb_build_object('id', v_workflow.id);
        v_bounded := v_bounded and not v_workflow.has_plan;
        v_template.flags := coalesce(v_template.flags, 0) | treadle.flag_member() | treadle.flag_counting();
    end if;

    if p_all_or_none then
        begin
            select array_agg(added.id), array_agg(added.is_new)
            into v_ids, v_new
            from treadle.enqueue_with_options(
                p_job_type, p_data, p_unique, p_while, p_period, p_per_period, '{}', p_latest, false, p_expires, p_expires_at,
                p_priority, p_queue, p_run_at, p_delay, p_keys, p_max_attempts, p_partitions, p_weight, p_after, p_workflow,
                p_headers
            ) as added;
            if false = any (v_new) then
                raise exception using errcode = 'TRD01'; -- undone here, seen by nobody
            end if;
        exception when sqlstate 'TRD01' then
            v_new := array(select nullif(each.is_new, true) from unnest(v_new) with ordinality as each (is_new, nth) order by each.nth);
        end;
        return query
        select each.id, each.is_new, false
        from unnest(v_ids, v_new) with ordinality as each (id, is_new, nth)
        order by each.nth;
        return;
    end if;

    -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
    perform pg_current_xact_id();
    v_now := clock_timestamp();
    v_template.job_type := p_job_type;
    v_template.priority := p_priority;
    v_template.queue := p_queue;
    v_template.max_attempts := p_max_attempts;
    v_template.created_at := v_now;
    v_template.run_at := greatest(coalesce(p_run_at, v_now + p_delay, v_now), v_now);
    v_template.expires_at := coalesce(p_expires_at, v_template.run_at + p_expires);
    v_template.weight := p_weight;
    v_template.headers := p_headers;
    v_template.unique_while := case when p_while = 'pending' and p_period is null then 'pending' end;

    -- Which of them are new is known only then. If there is no room for those, it is undone.
    begin
        if p_period is not null then
            select array_agg(added.id order by added.nth), array_agg(added.is_new order by added.nth)
            into v_ids, v_new
            from treadle.enqueue_per_period(v_template, p_data, p_unique, p_keys, p_period, p_per_period, p_partitions) as added;
        elsif p_unique is not null then
            select
                array_agg(added.id order by added.nth), array_agg(added.is_new order by added.nth),
                array_agg(added.is_changed order by added.nth)
            into v_ids, v_new, v_changed
            from treadle.enqueue_unless_exists(v_template, p_data, p_unique, p_keys, p_on_conflict, p_latest, p_partitions) as added;
        else
            v_ids := array(
                select added.id
                from treadle.insert_jobs(
                    v_template, p_data, p_keys, array(select generate_series(1, cardinality(p_data))), p_partitions => p_partitions
                ) as added
            );
        end if;

        if v_bounded
            and not treadle.make_room(
                p_job_type,
                p_queue,
                p_priority,
                array(
                    select job.partition
                    from treadle.jobs as job
                    where job.id = any (v_ids)
                      and (v_new is null or job.id in (
                            select added.id
                            from unnest(v_ids, v_new) as added (id, is_new)
                            where added.is_new
                      ))
                ),
                v_ids
            )
        then
            raise exception using errcode = 'TRD02';
        end if;

        if p_after is not null then
            perform treadle.add_dependencies(
                array(
                    select added.id
                    from unnest(v_ids, v_new) as added (id, is_new)
                    where coalesce(added.is_new, true)
                ),
                p_after
            );
        end if;
        if p_workflow is not null then
            perform treadle.add_members(
                array(
                    select added.id
                    from unnest(v_ids, v_new) with ordinality as added (id, is_new, nth)
                    where coalesce(added.is_new, true)
                    order by added.nth
                ),
                p_workflow
            );
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

comment on function treadle.enqueue_with_options(varchar, text[], varchar[], varchar, interval, int, varchar[], interval, boolean, interval, timestamptz, int, varchar, timestamptz, interval, varchar[], int, text[], int, jsonb, jsonb, jsonb)
    is 'Enqueues one job per element of p_data (JSON texts), with unique keys or expiry. Returns for each the id, whether it is new, and whether an existing job was changed; no row if max_pending is reached.';

revoke all on function treadle.enqueue_with_options(varchar, text[], varchar[], varchar, interval, int, varchar[], interval, boolean, interval, timestamptz, int, varchar, timestamptz, interval, varchar[], int, text[], int, jsonb, jsonb, jsonb) from public;
