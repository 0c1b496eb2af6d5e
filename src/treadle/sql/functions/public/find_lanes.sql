-- The lanes, deepest first: how many jobs wait in each, when the first is or was due, and whether the lane is paused.
-- Counting stops when p_budget is used up: a lane whose depth equals counted_to has at least that many; see
-- find_depths(). The settings fix the plan, as in claim_jobs.sql.
create or replace function treadle.find_lanes(p_budget int default 50000)
returns table (
    queue varchar, job_type varchar, priority int, depth bigint, counted_to int, due_first timestamptz, paused boolean
)
language plpgsql stable
set treadle.plan = index_ranges
as $$
#variable_conflict use_column
declare
    c_lanes constant int := 1000;
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_lanes treadle.lane[];
    v_starts timestamptz[];
    v_counted record;
begin
    select array_agg(known.lane), array_agg(known.start)
    into v_lanes, v_starts
    from treadle.lanes_to_display(v_safe, c_lanes) as known;
    v_counted := treadle.count_lanes(v_lanes, v_starts, null, p_budget);

    return query
    select
        known.queue,
        known.job_type,
        known.priority,
        known.depth,
        known.counted_to,
        head.run_at,
        exists (select from treadle.pauses_of(known.job_type, known.queue))
    from unnest(v_lanes, v_starts, v_counted.depths, v_counted.counted_to)
        as known (queue, job_type, priority, partition, start, depth, counted_to)
    left join lateral treadle.lane_head(
        row(known.queue, known.job_type, known.priority, known.partition)::treadle.lane, known.start
    ) as head on true
    order by known.depth desc, known.priority desc, known.job_type, known.queue;
end
$$;
