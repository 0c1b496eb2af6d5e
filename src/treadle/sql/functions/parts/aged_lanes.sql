-- Of these lanes, those of the priority whose first job has waited longest, if that was due before p_before: see
-- Treadle(aging=…).
create or replace function treadle.aged_lanes(
    p_before timestamptz,
    inout queues varchar[],
    inout job_types varchar[],
    p_priorities int[],
    inout partitions varchar[],
    inout starts timestamptz[],
    out priority int
)
language plpgsql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
    with head as materialized (
        select lane.queue, lane.job_type, lane.priority, lane.partition, lane.start, head.run_at
        from unnest(queues, job_types, p_priorities, partitions, starts) as lane (queue, job_type, priority, partition, start)
        cross join lateral (
            select job.run_at
            from treadle.lane_jobs(row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane, lane.start) as job
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

comment on function treadle.aged_lanes(timestamptz, varchar[], varchar[], int[], varchar[], timestamptz[])
    is 'Of these lanes, those of the priority whose first job has waited longest, if that was due before p_before.';
