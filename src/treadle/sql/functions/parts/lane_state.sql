create or replace function treadle.lane_state(p_lane treadle.lane)
returns table (floor timestamptz, is_open boolean)
language sql stable
as $$
    select max(known.floor), bool_or(known.close_era is null)
    from treadle.lanes as known
    where treadle.is_in_lane(known.queue, known.job_type, known.priority, p_lane)
$$;

comment on function treadle.lane_state(treadle.lane)
    is 'The floor of one lane, and whether it stays listed: null if there is no such lane, false if it is about to be deleted.';
