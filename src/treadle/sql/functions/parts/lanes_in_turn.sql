-- The lanes that a claim searches next: active and not paused, of the highest priority first, up to p_lanes of one
-- priority, with the time at which the search of each starts.
--
-- If a priority has more, they take turns: each search begins at a random lane of a random job type (or queue) and
-- continues through all of them, so a type with very many lanes does not hide the others. The caller starts with nulls
-- in level, first, turn, step and place, and passes the returned values until lanes is null. p_queues null: of all
-- queues, a condition of its own in each query, so that both cases use an index.
create or replace function treadle.lanes_in_turn(
    p_job_types varchar[],
    p_queues varchar[],
    p_safe treadle.ticks, -- for safe_floor(); null: every floor can be trusted
    p_lanes int, -- how many
    inout level bigint, -- the priority
    inout first int, -- the job type and queue at which the turns began: a number of v_series
    inout turn bigint, -- and the lane of it
    inout step int, -- how many job types and queues were returned completely; null: all were
    inout place bigint, -- the last lane that was returned of the next one
    out lanes treadle.lane_range[],
    out ids bigint[] -- of all lanes that were listed, paused ones included
)
language plpgsql
as $$
declare
    c_all constant bigint := 9223372036854775807;
    v_types constant int := cardinality(p_job_types);
    v_series constant int := v_types * coalesce(cardinality(p_queues), 1);
    v_steps int[];
begin
    loop
        if step is null then
            select max(next.priority)
            into level
            from unnest(p_job_types) as wanted (job_type)
            cross join lateral (
                (
                    select lane.priority
                    from treadle.lanes as lane
                    where p_queues is null
                      and lane.job_type = wanted.job_type
                      and lane.dormant_xid is null
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
                      and lane.dormant_xid is null
                      and lane.priority < coalesce(level, 2147483648)
                    order by lane.priority desc
                    limit 1
                ) as lane
            ) as next;

            if level is null then
                lanes := null;
                return;
            end if;

            first := trunc(random() * v_series);
            turn := 0;
            if p_queues is null then
                -- Each is one step in idx_lanes_active. With min and max, all lanes would be read.
                select coalesce(ends.low + trunc(random() * (ends.high - ends.low + 1)) - 1, 0)
                into turn
                from (
                    select
                        (
                            select lane.id
                            from treadle.lanes as lane
                            where lane.job_type = p_job_types[1 + first]
                              and lane.priority = level
                              and lane.dormant_xid is null
                            order by lane.id + 0
                            limit 1
                        ) as low,
                        (
                            select lane.id
                            from treadle.lanes as lane
                            where lane.job_type = p_job_types[1 + first]
                              and lane.priority = level
                              and lane.dormant_xid is null
                            order by lane.id + 0 desc
                            limit 1
                        ) as high
                ) as ends;
            end if;
            step := 0;
            place := turn;
        end if;

        -- The nested loops return the steps in their order. The last step is the first one again, up to the lane at which
        -- the turns began.
        with listed as materialized (
            select each.step, found.id, found.queue, wanted.job_type, found.partition
            from generate_series(step, v_series) as each (step)
            cross join lateral (
                select
                    p_job_types[1 + (first + each.step) % v_types] as job_type,
                    p_queues[1 + (first + each.step) % v_series / v_types] as queue,
                    case when each.step = lanes_in_turn.step then place else 0 end as after,
                    case when each.step = v_series then turn else c_all end as until
            ) as wanted
            cross join lateral (
                (
                    select lane.id, lane.queue, lane.partition
                    from treadle.lanes as lane
                    where p_queues is null
                      and lane.job_type = wanted.job_type
                      and lane.priority = level
                      and lane.dormant_xid is null
                      and lane.id + 0 > wanted.after
                      and lane.id + 0 <= wanted.until
                    order by lane.id + 0
                    limit p_lanes
                )
                union all
                (
                    select lane.id, lane.queue, lane.partition
                    from treadle.lanes as lane
                    where lane.job_type = wanted.job_type
                      and lane.queue = wanted.queue
                      and lane.priority = level
                      and lane.dormant_xid is null
                      and lane.id + 0 > wanted.after
                      and lane.id + 0 <= wanted.until
                    order by lane.id + 0
                    limit p_lanes
                )
            ) as found
            limit p_lanes
        )
        select
            (select array_agg(listed.id) from listed),
            (select array_agg(listed.step) from listed),
            array_agg(row(shown.lane, coalesce(bound.floor, safe.floor, '-infinity'))::treadle.lane_range)
                filter (where not state.paused)
        into ids, v_steps, lanes
        from (
            -- A lane may be listed more than once until the next tick.
            select distinct row(listed.queue, listed.job_type, level, listed.partition)::treadle.lane as lane
            from listed
        ) as shown
        cross join lateral (
            select exists (select from treadle.pauses_of((shown.lane).job_type, (shown.lane).queue)) as paused
        ) as state
        left join lateral treadle.lane_floor(shown.lane) as bound on p_safe.xid is null
        left join lateral treadle.safe_floor(shown.lane, p_safe) as safe on p_safe.xid is not null;

        if cardinality(ids) = p_lanes then
            step := v_steps[p_lanes];
            place := ids[p_lanes];
        else
            step := null;
        end if;
        exit when lanes is not null;
    end loop;
end
$$;
