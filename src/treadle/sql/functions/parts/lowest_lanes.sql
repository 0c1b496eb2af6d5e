-- If there are many lanes: some of each of the lowest priorities of each job type, beginning at a random one. For aged_lanes().
create or replace function treadle.lowest_lanes(p_job_types varchar[], p_queues varchar[]) returns treadle.lane_range[]
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_levels constant int := 20;
    c_lanes constant int := 5;
    v_type varchar;
    v_priority int;
    v_first bigint;
    v_last bigint;
    v_lanes treadle.lane_range[] := '{}';
begin
    foreach v_type in array p_job_types loop
        v_priority := null;
        for v_level in 1 .. c_levels loop
            -- In the order of idx_lanes_active, so that it is used.
            select lane.priority, lane.id
            into v_priority, v_last
            from treadle.lanes as lane
            where lane.job_type = v_type
              and lane.priority > coalesce(v_priority, -2147483648)
              and lane.idle_xid is null
              and lane.parked_name is null
            order by lane.priority, lane.id + 0 desc
            limit 1;
            exit when not found;

            select lane.id + trunc(random() * (v_last - lane.id + 1))
            into v_first
            from treadle.lanes as lane
            where lane.job_type = v_type
              and lane.priority = v_priority
              and lane.idle_xid is null
              and lane.parked_name is null
            order by lane.priority desc, lane.id + 0
            limit 1;

            v_lanes := v_lanes || array(
                select row(shown.lane, coalesce(bound.floor, '-infinity'))::treadle.lane_range
                from (
                    select distinct row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane as lane
                    from (
                        select lane.queue, lane.job_type, lane.priority, lane.partition
                        from treadle.lanes as lane
                        where lane.job_type = v_type
                          and lane.priority = v_priority
                          and lane.idle_xid is null
                          and lane.parked_name is null
                          and lane.id + 0 >= v_first
                          and (p_queues is null or lane.queue = any (p_queues))
                          and not exists (
                                select
                                from treadle.pauses as pause
                                where pause.job_type in (lane.job_type, '')
                                  and pause.queue in (lane.queue, '')
                          )
                        order by lane.priority desc, lane.id + 0
                        limit c_lanes
                    ) as lane
                ) as shown
                left join lateral treadle.lane_floor(shown.lane) as bound on true
            );
        end loop;
    end loop;
    return v_lanes;
end
$$;

comment on function treadle.lowest_lanes(varchar[], varchar[])
    is 'Some lanes of each of the lowest priorities of these job types.';
