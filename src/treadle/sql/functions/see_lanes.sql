-- The lanes with how many jobs wait in each, for who looks at the queue. Counting ends at a share of p_budget: what
-- reaches `counted_to` holds at least that many.
--
-- The planner may not choose here, for the reasons of claim_jobs. A look begins at settled, not at the floor: it also sees
-- what was committed late.
create or replace function treadle.see_lanes(p_budget int default 50000)
returns table (
    queue varchar, job_type varchar, priority int, depth bigint, counted_to int, due_first timestamptz, paused boolean
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
    c_lanes constant int := 1000;
    v_counted_to int;
begin
    select greatest(100, p_budget / greatest(1, count(*)))
    into v_counted_to
    from treadle.lanes;

    return query
    select
        lane.queue,
        lane.job_type,
        lane.priority,
        waiting.depth,
        v_counted_to,
        head.run_at,
        exists (
            select
            from treadle.pauses as pause
            where pause.job_type in (lane.job_type, '')
              and pause.queue in (lane.queue, '')
        )
    from (
        select lane.queue, lane.job_type, lane.priority, max(lane.settled) as start
        from treadle.lanes as lane
        group by lane.queue, lane.job_type, lane.priority
        -- Beyond that, those where something happened last; where most waits would have to be counted first.
        order by
            greatest(max(lane.opened_at), max(lane.floor)) desc nulls last,
            lane.queue,
            lane.job_type,
            lane.priority
        limit c_lanes
    ) as lane
    cross join lateral (
        select count(*) as depth
        from (
            select
            from treadle.jobs as job
            where job.queue = lane.queue
              and job.job_type = lane.job_type
              and job.priority = lane.priority
              and job.run_at >= lane.start
              and job.status = 'pending'
              and job.holds = 0
              and job.attempts < job.max_attempts
            limit v_counted_to
        ) as counted
    ) as waiting
    left join lateral (
        select job.run_at
        from treadle.jobs as job
        where job.queue = lane.queue
          and job.job_type = lane.job_type
          and job.priority = lane.priority
          and job.run_at >= lane.start
          and job.status = 'pending'
          and job.holds = 0
          and job.attempts < job.max_attempts
        order by job.run_at
        limit 1
    ) as head on true
    order by waiting.depth desc, lane.priority desc, lane.job_type, lane.queue;
end
$$;

comment on function treadle.see_lanes(int)
    is 'The lanes, deepest first: how many jobs wait in each (counted up to counted_to), since when the first is due, and whether it is paused.';
