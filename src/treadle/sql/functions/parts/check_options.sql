-- The options of jobs with their defaults, for add_jobs(); raises an exception if jobs cannot have them.
create or replace function treadle.check_options(p_data text[], p_options treadle.enqueue_options)
returns treadle.enqueue_options
language plpgsql immutable
as $$
declare
    v_jobs constant int := cardinality(p_data);
    v_problem text;
begin
    p_options.priority := coalesce(p_options.priority, 100);
    p_options.queue := coalesce(p_options.queue, 'default');
    p_options.max_attempts := coalesce(p_options.max_attempts, 3);
    p_options.unique_while := coalesce(p_options.unique_while, 'unfinished');
    p_options.per_period := coalesce(p_options.per_period, 1);
    p_options.on_conflict := coalesce(p_options.on_conflict, '{}');
    if p_options.key is not null then
        p_options.keys := array_fill(p_options.key, array[v_jobs]);
    end if;
    if p_options.partition is not null then
        p_options.partitions := array_fill(p_options.partition, array[v_jobs]);
    end if;

    perform treadle.check_job(p_options.max_attempts, p_options.headers);
    v_problem := case
        when p_options.unique_while not in ('unfinished', 'pending')
            then 'unique_while must be unfinished or pending, got ' || p_options.unique_while
        when not p_options.on_conflict <@ array['replace', 'reschedule', 'prioritize']::varchar[]
            then 'on_conflict must contain replace, reschedule or prioritize only, got ' || p_options.on_conflict::text
        when p_data is null or cardinality(p_options.keys) <> v_jobs or cardinality(p_options.partitions) <> v_jobs
            then 'p_data must be an array of JSON texts; keys and partitions must have as many elements'
        when cardinality(p_options.unique_keys) <> v_jobs
            or array_position(p_options.unique_keys, null) is not null
            or array_position(p_options.unique_keys, '') is not null
            then 'unique_keys must have one text for each element of p_data, which must not be null or empty'
        when p_options.period is not null
            and (
                p_options.unique_keys is null
                or p_options.on_conflict <> '{}'
                or p_options.per_period not between 1 and 1000
                or p_options.period <= interval '0'
            )
            then 'period must be longer than 0; it needs unique_keys, per_period from 1 to 1000, and no on_conflict'
        when cardinality(p_options.timeout) <> 2 or 0 >= any (p_options.timeout) or p_options.timeout[1] > p_options.timeout[2]
            then 'timeout must be two numbers of seconds, the second not shorter than the first, got ' || p_options.timeout::text
        when p_options.weight < 1 then 'weight must be 1 or more, got ' || p_options.weight
        when p_options.expires < interval '0' then 'expires must not be negative, got ' || p_options.expires
    end;
    if v_problem is not null then
        raise exception '%', v_problem using errcode = 'invalid_parameter_value';
    end if;
    return p_options;
end
$$;
