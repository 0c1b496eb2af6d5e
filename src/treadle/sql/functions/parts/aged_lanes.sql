-- The lanes of the priority whose first job has waited longest, if that was due before p_before: see Treadle(aging=…). Of each job
-- type, the c_lanes lanes of the lowest priorities are considered: the others are claimed from anyway.
create or replace function treadle.aged_lanes(
    p_job_types varchar[],
    p_queues varchar[],
    p_before timestamptz,
    out priority int,
    out queues varchar[],
    out job_types varchar[],
    out partitions varchar[],
    out starts timestamptz[]
)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    c_lanes constant int := 20;
begin
    with lane as materialized (
        select distinct listed.queue, listed.job_type, listed.priority, listed.partition
        from unnest(p_job_types) as wanted (job_type)
        cross join lateral (
            select lane.queue, lane.job_type, lane.priority, lane.partition
            from treadle.lanes as lane
            where lane.job_type = wanted.job_type
              and lane.idle_xid is null
              and lane.parked_name is null
              and (p_queues is null or lane.queue = any (p_queues))
            order by lane.priority, lane.id + 0
            limit c_lanes
        ) as listed
        where not exists (
            select
            from treadle.pauses as pause
            where pause.job_type in (listed.job_type, '')
              and pause.queue in (listed.queue, '')
        )
    ),
    head as materialized (
        select lane.queue, lane.job_type, lane.priority, lane.partition, bound.start, head.run_at
        from lane
        cross join lateral (
            select coalesce(
                (
                    select known.floor
                    from treadle.lane_floor(row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane) as known
                ),
                '-infinity'
            ) as start
        ) as bound
        cross join lateral (
            select job.run_at
            from treadle.lane_jobs(row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane, bound.start) as job
            order by job.run_at
            limit 1
        ) as head
        where head.run_at < p_before
    )
    select head.priority, array_agg(head.queue), array_agg(head.job_type), array_agg(head.partition), array_agg(head.start)
    into priority, queues, job_types, partitions, starts
    from head
    where head.priority = (select oldest.priority from head as oldest order by oldest.run_at limit 1)
    group by head.priority;
end
$$;

comment on function treadle.aged_lanes(varchar[], varchar[], timestamptz)
    is 'The lanes of the priority whose first job has waited longest, if that was due before p_before.';
