-- Enqueues one job and returns its id, or null if max_pending is reached: select treadle.enqueue('welcome',
-- '{"user_id": 7}').
--
-- Cheaper than enqueue_jobs() for one job: without a list or another function, and without a query for the lane if this
-- session has seen it active (see register_lanes.sql).
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
    p_headers jsonb default null,
    p_alone boolean default false -- nothing else is in the transaction: workers need not be notified at commit
) returns uuid
language plpgsql
as $$
declare
    -- Both names are put together so that they do not change with the schema.
    c_listed constant text := 'treadle' || '.listed';
    v_now timestamptz;
    v_xid xid8;
    v_id uuid;
    v_parts varchar[];
    v_partition varchar := '';
    v_lane text;
    v_listed boolean;
    v_age bigint;
begin
    if p_max_attempts < 1 or p_headers is not null then
        perform treadle.check_job(p_max_attempts, p_headers);
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

    -- First the transaction id, then the clock and the epoch of the lanes: the tick relies on that order (see tick.sql).
    v_xid := pg_current_xact_id(); -- cheaper than "perform", which runs a query
    v_now := clock_timestamp();
    p_run_at := greatest(coalesce(p_run_at, v_now + p_delay, v_now), v_now);
    v_lane := row(p_queue, p_job_type, p_priority, v_partition)::text;

    v_listed := current_setting('treadle' || '.lane_' || (hashtext(v_lane) & 63), true)
        = 'treadle.lane_epoch'::regclass::oid || ' ' || pg_sequence_last_value('treadle.lane_epoch'::regclass) || ' ' || v_lane;
    if v_listed then
        v_listed := set_config(c_listed, 'on', true) = 'on';
    end if;

    insert into treadle.jobs (job_type, priority, data, created_at, queue, run_at, key, max_attempts, partition, headers)
    values (
        p_job_type, p_priority, p_data, v_now, p_queue, p_run_at, p_key, p_max_attempts, v_partition, p_headers
    )
    returning id into v_id;

    if v_listed then
        v_listed := set_config(c_listed, '', true) = 'on';
        -- Most enqueues on a busy queue end here: see wake_workers().
        v_age := extract(epoch from v_now) * 1000000 - coalesce(pg_sequence_last_value('treadle.wake_clock'::regclass), 0);
        if v_age not between 20000 and 100000 and p_run_at <= v_now + interval '2 minutes' then
            perform treadle.wake_workers(p_run_at, p_alone);
        end if;
    end if;
    return v_id;
end
$$;
