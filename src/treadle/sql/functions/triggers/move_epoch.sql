-- Trigger: after a lane was made dormant, or an active one deleted, by whatever statement: sessions that have seen it
-- active look it up again (see register_lanes.sql).
--
-- Runs with the rights of its owner: a role that may change lanes by hand need not know of it.
create or replace function treadle.move_epoch() returns trigger
language plpgsql
security definer
as $$
begin
    perform nextval('treadle.lane_epoch');
    return null;
end
$$;

-- After each row, not before: then the transaction has locked it, and a session that still sees the lane active also sees that
-- somebody is changing it.
create or replace trigger lane_idle
    after update of dormant_xid, limit_name on treadle.lanes
    for each row
    when (
        (old.dormant_xid is null or old.limit_name is not null)
        and new.dormant_xid is not null
        and new.limit_name is null
    )
    execute function treadle.move_epoch();

create or replace trigger lane_deleted
    after delete on treadle.lanes
    for each row
    when (old.dormant_xid is null or old.limit_name is not null)
    execute function treadle.move_epoch();

create or replace trigger lanes_truncated
    after truncate on treadle.lanes
    for each statement
    execute function treadle.move_epoch();
