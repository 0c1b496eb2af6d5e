-- Adds a schedule, or changes one that was added with this function. Workers enqueue its jobs. Returns done, exists,
-- missing, or declared (in code: change the code, or pause the schedule). p_options has the other columns:
--
--   select treadle.put_schedule('nightly', 'report', '0 3 * * *', p_options => '{"missed": "skip"}');
--
-- Among them, options has what enqueue_with_options() takes: {"options": {"expires": "9 minutes"}}.
--
-- p_exists: null adds or changes, false only adds, true only changes. In a change, null keeps what was there. Runs with
-- the rights of its owner: every change is in the audit.
create or replace function treadle.put_schedule(
    p_name varchar,
    p_job_type varchar default null,
    p_expression varchar default null,
    p_data jsonb default null,
    p_timezone varchar default null,
    p_options jsonb default '{}',
    p_exists boolean default null,
    p_actor text default null,
    p_reason text default null
) returns varchar
language plpgsql
security definer
as $$
declare
    c_options constant text[] := array[
        'priority', 'queue', 'max_attempts', 'key', 'options', 'clocks_forward', 'clocks_back', 'missed', 'missed_limit', 'overlap',
        'jitter', 'starts_at', 'ends_at'
    ];
    c_of_jobs constant text[] := array[
        'expires', 'weight', 'headers', 'delay', 'unique_keys', 'unique_while', 'period', 'per_period', 'on_conflict',
        'latest', 'all_or_none'
    ];
    v_given constant jsonb := p_options || jsonb_strip_nulls(
        jsonb_build_object('job_type', p_job_type, 'expression', p_expression, 'data', p_data, 'timezone', p_timezone)
    );
    v_unknown text;
    v_known treadle.schedules;
    v_new treadle.schedules;
begin
    select string_agg(option, ', ') into v_unknown
    from jsonb_object_keys(p_options) as option
    where option <> all (c_options);
    if v_unknown is not null then
        raise exception 'unknown options of a schedule: %', v_unknown
            using errcode = 'invalid_parameter_value', hint = 'Options are ' || array_to_string(c_options, ', ') || '.';
    end if;

    if jsonb_typeof(p_options -> 'options') <> 'null' then
        if jsonb_typeof(p_options -> 'options') <> 'object' then
            raise exception 'options must be an object, got %', p_options -> 'options'
                using errcode = 'invalid_parameter_value';
        end if;
        select string_agg(option, ', ') into v_unknown
        from jsonb_object_keys(p_options -> 'options') as option
        where option <> all (c_of_jobs);
        if v_unknown is not null then
            raise exception 'unknown options of the jobs of a schedule: %', v_unknown
                using errcode = 'invalid_parameter_value', hint = 'Options are ' || array_to_string(c_of_jobs, ', ') || '.';
        end if;
        perform treadle.check_options(
            array['{}'], jsonb_populate_record(null::treadle.enqueue_options, p_options -> 'options')
        );
    end if;

    select known.* into v_known
    from treadle.schedules as known
    where known.name = p_name
    for update;
    if v_known.digest is not null then
        return 'declared';
    end if;
    if p_exists and v_known.name is null then
        return 'missing';
    end if;
    if not p_exists and v_known.name is not null then
        return 'exists';
    end if;

    if v_known.name is null then
        if p_job_type is null or p_expression is null then
            raise exception 'a new schedule needs p_job_type and p_expression'
                using errcode = 'invalid_parameter_value';
        end if;
        insert into treadle.schedules (name, job_type, expression)
        values (p_name, p_job_type, p_expression)
        returning * into v_known;
    end if;

    v_new := jsonb_populate_record(v_known, v_given);
    perform treadle.change_schedule(v_known, v_new);

    insert into treadle.audit (actor, action, job_type, reason, details)
    values (
        coalesce(p_actor, session_user), 'put schedule', v_new.job_type, p_reason,
        jsonb_build_object('schedule', p_name) || (v_given - 'data') #- '{options,headers}'
    );
    perform treadle.send_notification('work', 'schedules');
    return 'done';
end
$$;
