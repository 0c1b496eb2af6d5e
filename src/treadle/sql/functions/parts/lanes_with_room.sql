-- The dormant lanes that a claim searches: those of limits that may have room now (see limit_openings), of each job
-- type up to c_lanes. If more wait for a limit, they take turns. An opening older than c_recent is left to
-- review_limits().
create or replace function treadle.lanes_with_room(p_job_types varchar[], p_queues varchar[], p_now timestamptz)
returns treadle.lane_range[]
language plpgsql
as $$
declare
    c_recent constant interval := '10 seconds'; -- more than in review_limits.sql
    c_openings constant int := 100;
    c_lanes constant int := 100;
begin
    return (
        with opening as materialized (
            select distinct known.name, known.key
            from (
                select opening.name, opening.key
                from treadle.limit_openings as opening
                where opening.opens_at > p_now - c_recent
                  and opening.opens_at <= p_now
                order by opening.opens_at
                limit c_openings
            ) as known
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
                select first.priority, first.id + trunc(random() * (last.id - first.id + 1)) as first
                from (
                    select lane.priority, lane.id
                    from treadle.lanes as lane
                    where lane.limit_name = opening.name
                      and lane.limit_key = opening.key
                      and lane.job_type = wanted.job_type
                    order by lane.priority desc, lane.id + 0
                    limit 1
                ) as first
                cross join lateral (
                    select lane.id
                    from treadle.lanes as lane
                    where lane.limit_name = opening.name
                      and lane.limit_key = opening.key
                      and lane.job_type = wanted.job_type
                      and lane.priority = first.priority
                    order by lane.id + 0 desc
                    limit 1
                ) as last
            ) as turn
            cross join lateral (
                select lane.queue, lane.job_type, lane.priority, lane.partition
                from generate_series(1, 3) as step
                cross join lateral (
                    select lane.queue, lane.job_type, lane.priority, lane.partition
                    from treadle.lanes as lane
                    where lane.limit_name = opening.name
                      and lane.limit_key = opening.key
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
        where not exists (select from treadle.pauses_of(lane.job_type, lane.queue))
    );
end
$$;
