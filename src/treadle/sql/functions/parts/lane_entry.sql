-- For a job that enters a lane: the floor, if there is one, and whether claims will search the lane when the job is
-- due.
create or replace function treadle.lane_entry(p_lane treadle.lane, p_run_at timestamptz)
returns table (floor timestamptz, is_listed boolean)
language sql stable
as $$
    select
        (select bound.floor from treadle.lane_floor(p_lane) as bound),
        exists (
            select
            from treadle.lanes as known
            where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, p_lane)
              and (treadle.is_listed(known.dormant_xid, known.limit_name) or known.wakes_at <= p_run_at)
        )
$$;
