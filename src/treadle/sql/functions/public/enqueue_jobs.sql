-- Enqueues many jobs of one type in one statement. Returns their ids in the order of p_data.
--
-- run_at grows by a microsecond from job to job, so that the floor of the lane can lie between any two of them. It is
-- counted backwards from now, so that all of them are due at once.
create or replace function treadle.enqueue_jobs(
    p_job_type varchar,
    p_data text[],
    p_priority int default 100,
    p_queue varchar default 'default',
    p_run_at timestamptz default null,
    p_delay interval default null,
    p_keys varchar[] default null,
    p_max_attempts int default 3,
    p_partitions text[] default null,
    p_headers jsonb default null -- of each of them
) returns setof uuid
language plpgsql
as $$
declare
    v_now timestamptz;
    v_first timestamptz;
    v_parts constant varchar[] := treadle.partition_parts(p_job_type, p_queue);
    v_partitions varchar[];
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

    if v_parts is not null or p_partitions is not null then
        v_partitions := array(
            select treadle.partition_of(v_parts, item.data::jsonb, item.given::jsonb)
            from unnest(p_data, p_partitions) with ordinality as item (data, given, nth)
            order by item.nth
        );
        if not treadle.make_room(p_job_type, p_queue, p_priority, v_partitions) then
            return;
        end if;
    end if;

    -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
    perform pg_current_xact_id();
    v_now := clock_timestamp();
    v_first := greatest(coalesce(p_run_at, v_now + p_delay, v_now), v_now)
        - cardinality(p_data) * interval '1 microsecond';

    return query
    insert into treadle.jobs (job_type, priority, data, created_at, queue, run_at, key, max_attempts, partition, headers)
    select
        p_job_type,
        p_priority,
        item.data::jsonb,
        v_now,
        p_queue,
        v_first + item.nth * interval '1 microsecond',
        item.key,
        p_max_attempts,
        coalesce(item.partition, ''),
        p_headers
    from unnest(p_data, p_keys, v_partitions) with ordinality as item (data, key, partition, nth)
    returning id;
end
$$;

comment on function treadle.enqueue_jobs(varchar, text[], int, varchar, timestamptz, interval, varchar[], int, text[], jsonb)
    is 'Enqueues one job per element of p_data (JSON texts) and returns their ids in that order; none if max_pending is reached.';
