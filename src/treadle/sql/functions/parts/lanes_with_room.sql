-- The parked lanes that a claim searches: those of limits that may have room now, of each job type up to c_lanes. If a limit has
-- more, they take turns.
create or replace function treadle.lanes_with_room(p_job_types varchar[], p_queues varchar[], p_now timestamptz)
returns treadle.lane_range[]
language plpgsql
as $$
declare
    c_lanes constant int := 100;
begin
    return (
        with opening as materialized (
            select limited.name, limited.key
            from treadle.limits_with_room(p_now, p_now) as limited
        )
        select array_agg(
            row(
                row(lane.queue, lane.job_type, lane.priority, lane.partition), coalesce(bound.floor, '-infinity')
            )::treadle.lane_range
            order by lane.priority desc
        )
        from (
            select distinct lane.queue, lane.job_type, lane.priority, lane.partition
            from opening
            cross join unnest(p_job_types) as wanted (job_type)
            cross join lateral (
                -- The highest priority, from a random lane on.
                select
                    min(lane.id + 0) + trunc(random() * (max(lane.id + 0) - min(lane.id + 0) + 1)) as first, top.priority
                from (
                    select max(lane.priority) as priority
                    from treadle.lanes as lane
                    where lane.parked_name = opening.name
                      and lane.parked_key = opening.key
                      and lane.job_type = wanted.job_type
                ) as top
                cross join treadle.lanes as lane
                where lane.parked_name = opening.name
                  and lane.parked_key = opening.key
                  and lane.job_type = wanted.job_type
                  and lane.priority = top.priority
                group by top.priority
            ) as turn
            cross join lateral (
                select lane.queue, lane.job_type, lane.priority, lane.partition
                from generate_series(1, 3) as step
                cross join lateral (
                    select lane.queue, lane.job_type, lane.priority, lane.partition
                    from treadle.lanes as lane
                    where lane.parked_name = opening.name
                      and lane.parked_key = opening.key
                      and lane.job_type = wanted.job_type
                      and case step
                            when 1 then lane.priority = turn.priority and lane.id + 0 >= turn.first
                            when 2 then lane.priority = turn.priority and lane.id + 0 < turn.first
                            else lane.priority < turn.priority
                          end
                    order by lane.priority desc, lane.id + 0
                    limit c_lanes
                ) as lane
                where p_queues is null or lane.queue = any (p_queues)
                limit c_lanes
            ) as lane
        ) as lane
        left join lateral treadle.lane_floor(row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane) as bound
            on true
        where not exists (
            select
            from treadle.pauses as pause
            where pause.job_type in (lane.job_type, '')
              and pause.queue in (lane.queue, '')
        )
    );
end
$$;

comment on function treadle.lanes_with_room(varchar[], varchar[], timestamptz)
    is 'The parked lanes of these job types whose limits may have room now.';
