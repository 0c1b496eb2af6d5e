-- The lanes that a search reads, each from its floor on: active, not paused or parked. For the usual case that there are few:
-- if more than p_limit are listed, none is returned, and next_lanes() returns them in portions.
--
-- The floors must be trusted: see tick_is_fresh(). The planner inlines this function.
create or replace function treadle.active_lanes(p_job_types varchar[], p_queues varchar[], p_limit int)
returns table (
    queue varchar, job_type varchar, priority int, partition varchar,
    start timestamptz
)
language sql stable
as $$
    with listed as materialized (
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.job_type = any (p_job_types)
          and lane.idle_xid is null
          and lane.parked_name is null
        limit p_limit + 1
    )
    select lane.queue, lane.job_type, lane.priority, lane.partition, coalesce(bound.floor, '-infinity')
    from (
        -- A lane may be listed more than once until the next tick.
        select distinct listed.priority, listed.job_type, listed.queue, listed.partition
        from listed
        where (select count(*) from listed) <= p_limit
          and (p_queues is null or listed.queue = any (p_queues))
          and (
                not (select exists (select from treadle.pauses))
                or not exists (
                    select
                    from treadle.pauses as pause
                    where pause.job_type in (listed.job_type, '')
                      and pause.queue in (listed.queue, '')
                )
          )
        order by listed.priority desc
    ) as lane
    left join lateral treadle.lane_floor(row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane) as bound
        on true
$$;

comment on function treadle.active_lanes(varchar[], varchar[], int)
    is 'The lanes of these job types that a search reads, with the time at which the search of each starts; none if there are more than p_limit.';
