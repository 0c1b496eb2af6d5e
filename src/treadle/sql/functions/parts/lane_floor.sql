-- The floor of a lane; no row: every job must be searched. The planner inlines this function. The newest floor comes
-- first in idx_floors_lane, so that floors which an open snapshot keeps from being removed are not read.
create or replace function treadle.lane_floor(p_lane treadle.lane) returns table (floor timestamptz)
language sql stable
as $$
    select known.floor
    from treadle.floors as known
    where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, p_lane)
    order by known.xid desc
    limit 1
$$;
