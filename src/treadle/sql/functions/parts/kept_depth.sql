-- How many jobs a lane has, or there are of a status that is not pending, as workers counted them last. The planner
-- inlines this function. No row: nobody keeps it. If counted_at is null, not all of them were counted yet.
create or replace function treadle.kept_depth(p_status varchar, p_lane treadle.lane)
returns table (jobs bigint, counted_at timestamptz)
language sql stable
as $$
    select
        coalesce(sum(kept.jobs), 0)::bigint,
        case when bool_and(kept.jobs is not null) then max(kept.counted_at) end
    from treadle.depths as kept
    where kept.status = p_status
      and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, p_lane)
    having count(*) > 0
$$;
