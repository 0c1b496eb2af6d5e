-- Trigger: at commit of a transaction that has made a lane active, paused or resumed one, or added or removed a limit:
-- sessions that keep their lanes between claims read them again (find_known_lanes). At commit, so that it is visible a
-- moment later.
--
-- Runs with the rights of its owner: at commit, the current role may be any.
create or replace function treadle.note_lane_change() returns trigger
language plpgsql
security definer
as $$
begin
    perform setval('treadle.lane_clock', (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    return null;
end
$$;

create constraint trigger note_active_lane
    after insert or update on treadle.lanes
    deferrable initially deferred
    for each row
    when (new.dormant_xid is null)
    execute function treadle.note_lane_change();

create constraint trigger note_limit
    after insert or delete on treadle.limit_targets
    deferrable initially deferred
    for each row
    execute function treadle.note_lane_change();

create constraint trigger note_pause
    after insert or delete on treadle.pauses
    deferrable initially deferred
    for each row
    execute function treadle.note_lane_change();
