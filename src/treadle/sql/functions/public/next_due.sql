-- For a worker that found no job: requests a notification of new jobs, then searches once more, and returns the
-- seconds until the next job of these types is due (0 or less: now), null if there is none. In this order, so that no
-- job can arrive unnoticed between the two.
create or replace function treadle.next_due(
    p_job_types varchar[],
    p_queues varchar[] default null,
    p_sure boolean default false,
    p_answered bigint default null,
    p_known treadle.known_lanes default null -- if the caller has called find_known_lanes()
) returns double precision
language plpgsql
set treadle.plan = cached_index_ranges
as $$
declare
    c_long constant interval := '1 year';
    c_lanes constant int := 100;
    v_last constant bigint := coalesce(pg_sequence_last_value('treadle.wake_clock'::regclass), 0);
    v_safe treadle.ticks;
    v_known treadle.known_lanes := p_known;
    v_lanes treadle.lane_range[];
    v_listed record;
    v_next timestamptz;
begin
    -- Only if workers were notified since the last call: an idle worker writes nothing. A client that does not understand
    -- the numbers of notifications (see notify_at_commit()) is not forgotten because of one that does.
    --
    -- Nor if another worker has just been notified: it finds all jobs that arrive until it calls this, too. p_answered is the number
    -- of the notification that the caller itself has answered, 0 if it was for others, -1 if it does not know which; null: it does
    -- not understand numbers.
    if (v_last > 1 or v_last = 1 and p_answered is null)
        and (
            coalesce(p_answered, -1) in (v_last, -1)
            or abs(extract(epoch from clock_timestamp()) * 1000000 - v_last) > 100000
        )
    then
        perform setval('treadle.wake_clock', (p_answered is not null)::int);
    end if;

    -- To be sure that no job is left, also search below the floors: a job that was committed late may lie there.
    if p_sure then
        v_safe := treadle.prepare_lanes(p_job_types, p_sure);
    elsif v_known.limited is null then
        v_known := treadle.find_known_lanes(p_job_types, p_queues);
    end if;

    v_lanes := v_known.lanes;
    if v_lanes is null then
        if v_safe.xid is null and not treadle.tick_is_fresh() then
            v_safe := treadle.prepare_lanes(p_job_types);
        end if;
        v_listed := treadle.lanes_in_turn(p_job_types, p_queues, v_safe, c_lanes, null, null, null, null, null);
        v_lanes := v_listed.lanes;
    end if;

    while v_lanes <> '{}' loop
        select least(v_next, min(head.run_at))
        into v_next
        from unnest(v_lanes) as range
        cross join lateral treadle.lane_head(range.lane, range.start) as head;

        exit when v_listed is null or v_next <= clock_timestamp();
        v_listed := treadle.lanes_in_turn(
            p_job_types, p_queues, v_safe, c_lanes, v_listed.level, v_listed.first, v_listed.turn, v_listed.step, v_listed.place
        );
        v_lanes := v_listed.lanes;
    end loop;

    -- Dormant lanes. A tick makes them active before their first job is due.
    if v_known.lanes is not null then
        v_next := least(v_next, case when v_known.next_wake > clock_timestamp() then v_known.next_wake end);
    else
        v_next := least(v_next, treadle.next_wake_after(p_job_types, p_queues, clock_timestamp()));
    end if;
    if v_known.limited is not false then
        v_next := least(v_next, treadle.next_opening(p_job_types, p_queues));
    end if;

    -- Before PostgreSQL 17, infinite times cannot be subtracted.
    return case
        when v_next is not null
        then extract(epoch from greatest(least(v_next, clock_timestamp() + c_long), clock_timestamp() - c_long) - clock_timestamp())
    end;
end
$$;
