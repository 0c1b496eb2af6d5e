-- Which limits the claimed jobs use: for hold_slots(). The lanes that they are from have numbers, and so have the
-- limits; p_limited and p_limits say which lane has which limit. The joins of lists are hashed: with nested loops, each
-- job would be compared with each lane.
create or replace function treadle.taken_slots(
    p_ids uuid[],
    p_lanes treadle.lane[],
    p_limited int[],
    p_limits int[]
) returns table (nth int, jobs uuid[], leases bigint[], weights int[], weight bigint)
language plpgsql
set treadle.plan = callers
set enable_hashjoin = on
set enable_nestloop = off
as $$
begin
    return query
    select
        need.nth,
        array_agg(job.id),
        array_agg(job.lease),
        array_agg(coalesce(job.weight, 1)),
        sum(coalesce(job.weight, 1))
    from treadle.jobs as job
    join (
        -- A lane may be listed twice.
        select distinct lane.queue, lane.job_type, lane.partition, known.nth
        from unnest(p_lanes) with ordinality as lane (queue, job_type, priority, partition, number)
        join unnest(p_limited, p_limits) as known (lane, nth) on known.lane = lane.number
    ) as need
        on need.partition = job.partition
       and need.job_type = job.job_type
       and need.queue = job.queue
    where job.id = any (p_ids)
    group by need.nth;
end
$$;
