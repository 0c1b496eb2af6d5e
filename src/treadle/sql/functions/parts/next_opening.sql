-- When a limit may have room for the first job that waits for it; null: no job waits for one.
create or replace function treadle.next_opening(p_job_types varchar[], p_queues varchar[]) returns timestamptz
language plpgsql stable
set treadle.plan = cached_index_ranges
as $$
declare
    -- As in lanes_with_room.sql.
    c_recent constant interval := '10 seconds';
    c_openings constant int := 100;
begin
    if not exists (select from treadle.limit_targets) then
        return null;
    end if;

    return (
        select min(greatest(opening.opens_at, head.run_at))
        from (
            select opening.name, opening.key, min(opening.opens_at) as opens_at
            from (
                select opening.name, opening.key, opening.opens_at
                from treadle.limit_openings as opening
                where opening.opens_at > clock_timestamp() - c_recent
                order by opening.opens_at
                limit c_openings
            ) as opening
            group by opening.name, opening.key
        ) as opening
        cross join unnest(p_job_types) as wanted (job_type)
        cross join lateral (
            select lane.queue, lane.job_type, lane.priority, lane.partition
            from treadle.lanes as lane
            where lane.limit_name = opening.name
              and lane.limit_key = opening.key
              and lane.job_type = wanted.job_type
              and (p_queues is null or lane.queue = any (p_queues))
            order by lane.priority desc
            limit 10
        ) as lane
        left join lateral treadle.lane_floor(row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane) as bound
            on true
        cross join lateral treadle.lane_head(
            row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane,
            coalesce(bound.floor, '-infinity')
        ) as head
        where not exists (select from treadle.pauses_of(lane.job_type, lane.queue))
    );
end
$$;
