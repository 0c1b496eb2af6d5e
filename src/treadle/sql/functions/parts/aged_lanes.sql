-- The lanes of the priority whose first job has waited longest, if that was due before p_before: see Treadle(aging=…).
-- Of p_lanes; or if there are too many, of some of each of the lowest priorities of each job type, beginning at a
-- random one.
create or replace function treadle.aged_lanes(p_job_types varchar[], p_queues varchar[], p_before timestamptz, p_lanes treadle.lane_range[])
returns treadle.lane_range[]
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_levels constant int := 20;
    c_lanes constant int := 5;
begin
    return (
        -- In the order of idx_lanes_active, so that it is used.
        with recursive level as (
            select wanted.job_type, null::bigint as priority, null::bigint as last, 0 as nth
            from unnest(p_job_types) as wanted (job_type)
            where p_lanes is null
            union all
            select level.job_type, next.priority, next.last, level.nth + 1
            from level
            cross join lateral (
                select lane.priority, lane.id as last
                from treadle.lanes as lane
                where lane.job_type = level.job_type
                  and lane.priority > coalesce(level.priority, -2147483649)
                  and lane.dormant_xid is null
                order by lane.priority, lane.id + 0 desc
                limit 1
            ) as next
            where level.nth < c_levels
        ),
        sample as (
            select distinct row(lane.queue, level.job_type, level.priority, lane.partition)::treadle.lane as lane
            from level
            cross join lateral (
                select lane.id + trunc(random() * (level.last - lane.id + 1)) as id
                from treadle.lanes as lane
                where lane.job_type = level.job_type
                  and lane.priority = level.priority
                  and lane.dormant_xid is null
                order by lane.id + 0
                limit 1
            ) as first
            cross join lateral (
                select lane.queue, lane.partition
                from treadle.lanes as lane
                where lane.job_type = level.job_type
                  and lane.priority = level.priority
                  and lane.dormant_xid is null
                  and lane.id + 0 >= first.id
                  and (p_queues is null or lane.queue = any (p_queues))
                  and not exists (select from treadle.pauses_of(lane.job_type, lane.queue))
                order by lane.id + 0
                limit c_lanes
            ) as lane
        ),
        head as materialized (
            select range.lane, range.start, head.run_at
            from (
                select known.lane, known.start
                from unnest(p_lanes) as known
                union all
                select sample.lane, coalesce(bound.floor, '-infinity')
                from sample
                left join lateral treadle.lane_floor(sample.lane) as bound on true
            ) as range
            cross join lateral treadle.lane_head(range.lane, range.start) as head
            where head.run_at < p_before
        )
        select array_agg(row(head.lane, head.start)::treadle.lane_range)
        from head
        where (head.lane).priority = (select (oldest.lane).priority from head as oldest order by oldest.run_at limit 1)
    );
end
$$;
