-- Like enqueue_jobs(), for one job: without a list, it is cheaper.
create or replace function treadle.enqueue(
    p_job_type varchar,
    p_data jsonb default '{}',
    p_priority int default 100,
    p_queue varchar default 'default',
    p_run_at timestamptz default null,
    p_delay interval default null,
    p_key varchar default null,
    p_max_attempts int default 3,
    p_partition jsonb default null,
    p_headers jsonb default null
) returns uuid
language plpgsql
as $$
declare
    v_now timestamptz;
    v_xid xid8;
    v_id uuid;
    v_parts varchar[];
    v_partition varchar := '';
begin
    if p_max_attempts < 1 then
        raise exception 'p_max_attempts must be 1 or more, got %', p_max_attempts
            using errcode = 'invalid_parameter_value';
    end if;
    if jsonb_typeof(p_headers) <> 'object' or octet_length(p_headers::text) > 8192 then
        raise exception 'p_headers must be an object of at most 8192 bytes, got % of %', jsonb_typeof(p_headers),
            octet_length(p_headers::text)
            using errcode = 'invalid_parameter_value';
    end if;

    -- An empty table is read without touching a page.
    if exists (select from treadle.limit_targets) then
        v_parts := treadle.partition_parts(p_job_type, p_queue);
    end if;
    if v_parts is not null or p_partition is not null then
        v_partition := treadle.partition_of(v_parts, p_data, p_partition);
        if not treadle.make_room(p_job_type, p_queue, p_priority, array[v_partition]) then
            return null;
        end if;
    end if;

    -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
    v_xid := pg_current_xact_id(); -- cheaper than "perform", which runs a query
    v_now := clock_timestamp();

    insert into treadle.jobs (job_type, priority, data, created_at, queue, run_at, key, max_attempts, partition, headers)
    values (
        p_job_type,
        p_priority,
        p_data,
        v_now,
        p_queue,
        greatest(coalesce(p_run_at, v_now + p_delay, v_now), v_now),
        p_key,
        p_max_attempts,
        v_partition,
        p_headers
    )
    returning id into v_id;
    return v_id;
end
$$;

comment on function treadle.enqueue(varchar, jsonb, int, varchar, timestamptz, interval, varchar, int, jsonb, jsonb)
    is 'Enqueues one job and returns its id, or null if max_pending is reached: select treadle.enqueue(''welcome'', ''{"user_id": 7}'').';
