-- The lanes with the number of jobs that wait in each, for display. Counting stops at an equal share of p_budget per lane:
-- a lane whose depth equals counted_to has at least that many.
--
-- The settings fix the plan, for the reasons given in claim_places.sql. A search starts at a floor that is safe, so that
-- it also finds jobs that were committed late.
create or replace function treadle.find_lanes(p_budget int default 50000)
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
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_counted_to int;
begin
    select greatest(100, p_budget / greatest(1, count(*)))
    into v_counted_to
    from (
        select
        from treadle.listed_lanes()
        limit c_lanes
    ) as listed;

    return query
    select
        (known.lane).queue,
        (known.lane).job_type,
        (known.lane).priority,
        waiting.depth,
        v_counted_to,
        head.run_at,
        exists (
            select
            from treadle.pauses as pause
            where pause.job_type in ((known.lane).job_type, '')
              and pause.queue in ((known.lane).queue, '')
        )
    from (
        select known.lane, coalesce(bound.floor, '-infinity') as start
        from treadle.listed_lanes() as known
        left join lateral treadle.safe_floor(known.lane, v_safe) as bound on true
        left join lateral treadle.lane_floor(known.lane) as newest on true
        -- If there are more lanes, those that were used last: to find the deepest, all would have to be counted.
        order by greatest(known.opened_at, newest.floor) desc nulls last, known.lane
        limit c_lanes
    ) as known
    cross join lateral (
        select count(*) as depth
        from (
            select
            from treadle.lane_jobs(known.lane, known.start)
            limit v_counted_to
        ) as counted
    ) as waiting
    left join lateral (
        select job.run_at
        from treadle.lane_jobs(known.lane, known.start) as job
        order by job.run_at
        limit 1
    ) as head on true
    order by waiting.depth desc, (known.lane).priority desc, (known.lane).job_type, (known.lane).queue;
end
$$;

comment on function treadle.find_lanes(int)
    is 'The lanes, deepest first: how many jobs wait in each (counted up to counted_to), when the first is or was due, and whether the lane is paused.';
