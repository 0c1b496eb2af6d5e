-- The lanes that a claim searches next: active, not paused, of the highest priority first, up to 100 of one priority.
--
-- If a priority has more, they take turns: each search begins at a random lane and continues through all of them. The
-- caller starts with nulls in level, place, turn and wrapped, and passes the returned values until queues is null.
--
-- p_queues null: of all queues. That is a condition of its own in each query, so that both cases use an index.
create or replace function treadle.next_lanes(
    p_job_types varchar[],
    p_queues varchar[],
    p_safe treadle.ticks, -- for safe_floor(); null: every floor can be trusted
    inout level bigint, -- the priority
    inout place bigint, -- the last lane of it that was returned; null: all were
    inout turn bigint, -- the lane at which the turns began; null: all were returned at once
    inout wrapped boolean, -- the turns have reached the end, and continue from the first lane to the one where they began
    out queues varchar[],
    out job_types varchar[],
    out starts timestamptz[]
)
language plpgsql
as $$
declare
    c_lanes constant int := 100;
    v_listed int;
    v_first bigint;
    v_last bigint;
begin
    loop
        if place is null then
            select max(next.priority)
            into level
            from unnest(p_job_types) as wanted (job_type)
            cross join lateral (
                (
                    select lane.priority
                    from treadle.lanes as lane
                    where p_queues is null
                      and lane.job_type = wanted.job_type
                      and lane.idle_xid is null
                      and lane.priority < coalesce(level, 2147483648)
                    order by lane.priority desc
                    limit 1
                )
                union all
                select lane.priority
                from unnest(p_queues) as served (queue)
                cross join lateral (
                    select lane.priority
                    from treadle.lanes as lane
                    where lane.job_type = wanted.job_type
                      and lane.queue = served.queue
                      and lane.idle_xid is null
                      and lane.priority < coalesce(level, 2147483648)
                    order by lane.priority desc
                    limit 1
                ) as lane
            ) as next;

            if level is null then
                queues := null;
                return;
            end if;
            place := 0;
            turn := null;
            wrapped := false;
        end if;

        with listed as materialized (
            select found.id, found.queue, wanted.job_type
            from unnest(p_job_types) as wanted (job_type)
            cross join lateral (
                (
                    select lane.id, lane.queue
                    from treadle.lanes as lane
                    where p_queues is null
                      and lane.job_type = wanted.job_type
                      and lane.priority = level
                      and lane.idle_xid is null
                      and lane.id > place
                      and (not wrapped or lane.id <= turn)
                    order by lane.id
                    limit c_lanes
                )
                union all
                select lane.id, served.queue
                from unnest(p_queues) as served (queue)
                cross join lateral (
                    select lane.id
                    from treadle.lanes as lane
                    where lane.job_type = wanted.job_type
                      and lane.queue = served.queue
                      and lane.priority = level
                      and lane.idle_xid is null
                      and lane.id > place
                      and (not wrapped or lane.id <= turn)
                    order by lane.id
                    limit c_lanes
                ) as lane
            ) as found
            order by found.id
            limit c_lanes
        )
        select
            sum(lane.rows),
            min(lane.first),
            max(lane.last),
            array_agg(lane.queue) filter (where not state.paused),
            array_agg(lane.job_type) filter (where not state.paused),
            array_agg(coalesce(bound.floor, safe.floor, '-infinity')) filter (where not state.paused)
        into v_listed, v_first, v_last, queues, job_types, starts
        from (
            -- A lane may be listed more than once until the next tick.
            select listed.queue, listed.job_type, count(*) as rows, min(listed.id) as first, max(listed.id) as last
            from listed
            group by listed.queue, listed.job_type
        ) as lane
        cross join lateral (
            select exists (
                select
                from treadle.pauses as pause
                where pause.job_type in (lane.job_type, '')
                  and pause.queue in (lane.queue, '')
            ) as paused
        ) as state
        left join lateral treadle.lane_floor(row(lane.queue, lane.job_type, level)::treadle.lane) as bound
            on p_safe.xid is null
        left join lateral treadle.safe_floor(row(lane.queue, lane.job_type, level)::treadle.lane, p_safe) as safe
            on p_safe.xid is not null;

        if v_listed = c_lanes and place = 0 and turn is null then
            select v_first + trunc(random() * (max(lane.id) - v_first + 1))
            into turn
            from treadle.lanes as lane;
            place := turn;
            continue;
        end if;

        if v_listed = c_lanes then
            place := v_last;
        elsif turn is not null and not wrapped then
            place := 0;
            wrapped := true;
        else
            place := null;
        end if;
        exit when queues is not null;
    end loop;
end
$$;

comment on function treadle.next_lanes(varchar[], varchar[], treadle.ticks, bigint, bigint, bigint, boolean)
    is 'The active lanes of these job types that a claim searches next, with the time at which the search of each starts.';
