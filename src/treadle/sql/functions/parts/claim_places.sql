-- Claims jobs, highest priority first, then oldest, and returns where their rows are then: claim_jobs() and claim_work()
-- return the rows. A claim searches the active lanes, priority after priority: see claim_lanes().
--
-- Usually all lanes of the job types are read at once. If there are more than c_lanes, next_lanes() returns v_few of one
-- priority, then c_lanes at a time: the lanes take turns, and the oldest job of those is claimed first. If they have no jobs, they
-- become idle at once, without waiting for a tick, so that the next claim does not search them again.
--
-- The settings fix the plan: with stale statistics the planner would read the whole table. Since there is only one plan, it
-- is cached.
create or replace function treadle.claim_places(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int,
    p_queues varchar[]
) returns tid[]
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_indexscan = on
set enable_nestloop = on
set enable_tidscan = on
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_lanes constant int := 100;
    -- A claim takes several jobs of few of them, which costs less than one job of each; but not too many under a limit.
    v_few constant int := least(c_lanes, greatest(12, p_batch_size / 10));
    v_now constant timestamptz := clock_timestamp();
    v_snapshot constant pg_snapshot := pg_current_snapshot();
    v_running xid[] := '{}';
    v_safe treadle.ticks;
    v_queues varchar[];
    v_job_types varchar[];
    v_partitions varchar[];
    v_priorities int[];
    v_starts timestamptz[];
    v_at_once boolean := false; -- all lanes are read at once
    v_limited constant boolean := exists (select from treadle.limit_targets);
    v_limits boolean := false; -- for jobs that run or start
    v_opened record;
    v_fair varchar[];
    v_aging record; -- how long jobs have to wait, and how many of a hundred claims begin with them
    v_low record;
    v_aged record;
    v_turn int := 1;
    v_first int;
    v_next record;
    v_places tid[];
    v_claimed tid[] := '{}';
begin
    if p_batch_size is null or p_batch_size < 1 then
        raise exception 'batch size must be at least 1, got %', coalesce(p_batch_size::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;

    if not treadle.tick_is_fresh() then
        v_safe := treadle.prepare_lanes(p_job_types);
    end if;

    if pg_snapshot_xmin(v_snapshot) <> pg_snapshot_xmax(v_snapshot) then
        v_running := array(select running::xid from pg_snapshot_xip(v_snapshot) as running);
    end if;

    if v_safe.xid is null then
        select
            array_agg(lane.queue), array_agg(lane.job_type), array_agg(lane.priority), array_agg(lane.partition),
            array_agg(lane.start)
        into v_queues, v_job_types, v_priorities, v_partitions, v_starts
        from treadle.active_lanes(p_job_types, p_queues, c_lanes) as lane;
        v_at_once := v_queues is not null or not exists (
            select
            from treadle.lanes as lane
            where lane.job_type = any (p_job_types)
              and lane.idle_xid is null
              and lane.parked_name is null
            offset c_lanes
        );
    end if;

    if v_limited then
        v_opened := treadle.opened_lanes(p_job_types, p_queues, v_now);
        select
            coalesce(bool_or(not rule.fair and rule.when_full is null), false),
            array_agg(target.job_type) filter (where rule.fair and rule.period is null)
        into v_limits, v_fair
        from treadle.limit_targets as target
        join treadle.limits as rule on rule.name = target.name;
        select rule.period, rule.amount
        into v_aging
        from treadle.limits as rule
        where rule.fair
          and rule.period is not null;
        if v_safe.xid is null and random() * 100 < v_aging.amount then
            if v_at_once then
                v_aged := treadle.aged_lanes(v_now - v_aging.period, v_queues, v_job_types, v_priorities, v_partitions, v_starts);
            else
                v_low := treadle.low_lanes(p_job_types, p_queues);
                v_aged := treadle.aged_lanes(
                    v_now - v_aging.period, v_low.queues, v_low.job_types, v_low.priorities, v_low.partitions, v_low.starts
                );
            end if;
            if v_aged.queues is not null then
                v_claimed := treadle.claim_lanes(
                    p_worker_id, v_now, v_running, p_batch_size, v_aged.priority, v_aged.queues, v_aged.job_types,
                    v_aged.partitions, v_aged.starts, v_limits, v_fair, v_now - v_aging.period
                );
                if cardinality(v_claimed) = p_batch_size then
                    return v_claimed;
                end if;
            end if;
        end if;
        if v_at_once and v_opened.queues is not null then
            select
                array_agg(lane.queue order by lane.priority desc), array_agg(lane.job_type order by lane.priority desc),
                array_agg(lane.priority order by lane.priority desc), array_agg(lane.partition order by lane.priority desc),
                array_agg(lane.start order by lane.priority desc)
            into v_queues, v_job_types, v_priorities, v_partitions, v_starts
            from (
                select * from unnest(v_queues, v_job_types, v_priorities, v_partitions, v_starts)
                union all
                select *
                from unnest(
                    v_opened.queues, v_opened.job_types, v_opened.priorities, v_opened.partitions, v_opened.starts
                )
            ) as lane (queue, job_type, priority, partition, start);
        end if;
    end if;

    loop
        if v_at_once then
            v_first := 1;
            for v_last in 1 .. coalesce(cardinality(v_queues), 0) loop
                continue when v_priorities[v_last + 1] = v_priorities[v_first];
                v_claimed := v_claimed || treadle.claim_lanes(
                    p_worker_id, v_now, v_running, p_batch_size - cardinality(v_claimed), v_priorities[v_first],
                    v_queues[v_first : v_last], v_job_types[v_first : v_last], v_partitions[v_first : v_last],
                    v_starts[v_first : v_last], v_limits, v_fair, p_wait => v_claimed = '{}'
                );
                exit when cardinality(v_claimed) = p_batch_size;
                v_first := v_last + 1;
            end loop;
        else
            v_next := treadle.next_lanes(p_job_types, p_queues, v_safe, v_few, null, null, null, null, null);
            loop
                -- Before them, the opened lanes of a higher or the same priority.
                if v_limited then
                    while v_turn <= cardinality(v_opened.queues)
                        and (v_next.queues is null or v_opened.priorities[v_turn] >= v_next.level)
                        and cardinality(v_claimed) < p_batch_size
                    loop
                        v_claimed := v_claimed || treadle.claim_lanes(
                            p_worker_id, v_now, v_running, p_batch_size - cardinality(v_claimed), v_opened.priorities[v_turn],
                            v_opened.queues[v_turn : v_turn], v_opened.job_types[v_turn : v_turn],
                            v_opened.partitions[v_turn : v_turn], v_opened.starts[v_turn : v_turn], true
                        );
                        v_turn := v_turn + 1;
                    end loop;
                end if;
                exit when v_next.queues is null or cardinality(v_claimed) = p_batch_size;

                v_places := treadle.claim_lanes(
                    p_worker_id, v_now, v_running, p_batch_size - cardinality(v_claimed), v_next.level::int,
                    v_next.queues, v_next.job_types, v_next.partitions, v_next.starts, v_limits, v_fair,
                    p_wait => v_claimed = '{}'
                );
                v_claimed := v_claimed || v_places;
                exit when cardinality(v_claimed) = p_batch_size;
                if v_places = '{}' and v_safe.xid is null then
                    perform treadle.make_idle(v_next.ids, v_now);
                end if;
                v_next := treadle.next_lanes(
                    p_job_types, p_queues, v_safe, case when v_places = '{}' then c_lanes else v_few end,
                    v_next.level, v_next.first, v_next.turn, v_next.step, v_next.place
                );
            end loop;
        end if;

        -- What looks like a lock may be something else: try all rows.
        exit when v_claimed <> '{}' or v_running = '{}';
        v_running := '{}';
    end loop;

    return v_claimed;
end
$$;

comment on function treadle.claim_places(varchar, varchar[], int, varchar[])
    is 'Claims up to p_batch_size due jobs and returns where their rows are.';
