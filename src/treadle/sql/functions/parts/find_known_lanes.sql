-- The lanes that a search reads, each from its floor on, the highest priority first: active and not paused. They are
-- null if there are more than c_lanes, or if the floors cannot be trusted: then the search needs lanes_in_turn(). Also
-- whether there are limits, and when the first job of a dormant lane is due.
--
-- A session keeps them in a setting of its own, until the next tick, which looks for late commits below the floors, and
-- until a lane becomes active or there are other limits (note_lane_change). Both move a clock that is a part of the
-- key, but just before their change is visible. So what was read is not kept before the last tick is visible, nor
-- within a second after such a change; if a commit takes even longer, the next tick makes up for it. After a
-- transaction has written, it reads the lanes each time: its own changes move a clock only at commit.
create or replace function treadle.find_known_lanes(p_job_types varchar[], p_queues varchar[]) returns treadle.known_lanes
language plpgsql
as $$
declare
    c_lanes constant int := 100;
    -- The name has the number of the schema's table in it.
    c_kept constant text := 'treadle' || '.lanes_' || 'treadle.lanes'::regclass::oid;
    v_keeps constant boolean := treadle.is_read_committed() and pg_current_xact_id_if_assigned() is null;
    v_ticked bigint;
    v_changed bigint;
    v_key text;
    v_kept text;
    v_rows int := c_lanes + 1;
    v_listed int;
    v_known int;
    v_lanes treadle.lane_range[];
    v_found treadle.known_lanes;
begin
    -- Before the floors are read, in a statement of its own: see tick_is_fresh().
    v_ticked := pg_sequence_last_value('treadle.tick_clock'::regclass);
    if abs(coalesce(v_ticked, 0) - extract(epoch from clock_timestamp()) * 1000000) > 800000 then
        if (treadle.prepare_lanes(p_job_types)).xid is not null then
            v_found.limited := exists (select from treadle.limit_targets);
            return v_found;
        end if;
        v_ticked := pg_sequence_last_value('treadle.tick_clock'::regclass);
    end if;

    v_changed := coalesce(pg_sequence_last_value('treadle.lane_clock'::regclass), 0);
    v_key := concat_ws(' ', v_ticked, v_changed, p_job_types, p_queues) || E'\n';
    v_kept := current_setting(c_kept, true);
    if v_keeps and starts_with(v_kept, v_key) then
        return substr(v_kept, length(v_key) + 1)::treadle.known_lanes;
    end if;

    -- A lane may be listed more than once until the next tick: then more rows are read.
    loop
        with listed as materialized (
            select lane.queue, lane.job_type, lane.priority, lane.partition
            from treadle.lanes as lane
            where lane.job_type = any (p_job_types)
              and lane.dormant_xid is null
            limit v_rows
        ),
        known as materialized (
            select distinct listed.priority, listed.job_type, listed.queue, listed.partition
            from listed
        )
        select
            (select count(*) from listed), (select count(*) from known),
            array_agg(row(shown.lane, coalesce(bound.floor, '-infinity'))::treadle.lane_range)
        into v_listed, v_known, v_lanes
        from (
            select row(known.queue, known.job_type, known.priority, known.partition)::treadle.lane as lane
            from known
            where (select count(*) from known) <= c_lanes
              and (p_queues is null or known.queue = any (p_queues))
              and (
                    not (select exists (select from treadle.pauses))
                    or not exists (select from treadle.pauses_of(known.job_type, known.queue))
              )
            order by known.priority desc
        ) as shown
        left join lateral treadle.lane_floor(shown.lane) as bound on true;

        exit when v_listed < v_rows or v_known = v_rows or v_rows > c_lanes + 1;
        v_rows := 10 * v_rows;
    end loop;

    v_found.limited := exists (select from treadle.limit_targets);
    if v_listed = v_rows or v_known > c_lanes then
        return v_found;
    end if;

    v_found.lanes := coalesce(v_lanes, '{}');
    v_found.next_wake := treadle.next_wake_after(p_job_types, p_queues, clock_timestamp());
    if v_keeps
        and abs(extract(epoch from clock_timestamp()) * 1000000 - v_changed) > 1000000
        and exists (
            select
            from (select tick.ticked_at from treadle.ticks as tick order by tick.xid desc limit 1) as last
            where last.ticked_at > to_timestamp(v_ticked / 1000000.0) - interval '300 milliseconds'
        )
    then
        perform set_config(c_kept, v_key || v_found::text, false);
    end if;
    return v_found;
end
$$;
