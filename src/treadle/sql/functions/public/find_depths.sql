-- How many jobs wait, by queue, type and priority; when the first is or was due, and whether they are paused. The lanes
-- of different partitions are added up.
--
-- Up to p_budget jobs are counted along the index: then exact is true. Of lanes with more, it is the depth that workers
-- counted at counted_at (see count_depths.sql). If no worker has, exact is false and counted_at null: there are at
-- least so many. The settings fix the plan, as in claim_jobs.sql.
create or replace function treadle.find_depths(p_budget int default 50000)
returns table (
    queue varchar, job_type varchar, priority int, depth bigint, exact boolean, counted_at timestamptz,
    due_first timestamptz, paused boolean
)
language plpgsql stable
set treadle.plan = index_ranges
as $$
#variable_conflict use_column
declare
    c_lanes constant int := 1000;
    -- What was kept for longer than this without being counted again is used only if the lane cannot be counted.
    c_fresh constant interval := '30 seconds';
    -- Up to this depth, lanes are counted in any case: what was counted some seconds ago can be 5 % more if many jobs
    -- are claimed.
    c_near constant int := 25000;
    v_now constant timestamptz := clock_timestamp();
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_lanes treadle.lane[];
    v_starts timestamptz[];
    v_kept bigint[];
    v_kept_at timestamptz[];
    v_fresh bigint[];
    v_counted record;
begin
    select
        array_agg(known.lane), array_agg(known.start), array_agg(kept.jobs), array_agg(kept.counted_at),
        array_agg(
            case when kept.counted_at between v_now - c_fresh and v_now + c_fresh and kept.jobs > c_near then kept.jobs end
        )
    into v_lanes, v_starts, v_kept, v_kept_at, v_fresh
    from treadle.lanes_to_display(v_safe, c_lanes) as known
    left join lateral treadle.kept_depth('pending', known.lane) as kept on true;
    v_counted := treadle.count_lanes(v_lanes, v_starts, v_fresh, p_budget);

    return query
    select
        known.queue,
        known.job_type,
        known.priority,
        sum(known.depth)::bigint,
        bool_and(known.exact),
        case when bool_and(known.exact or known.counted_at is not null) then min(known.counted_at) end,
        min(known.run_at),
        bool_or(exists (select from treadle.pauses_of(known.job_type, known.queue)))
    from (
        select
            known.queue,
            known.job_type,
            known.priority,
            head.run_at,
            case when known.counted then known.depth else greatest(known.depth, known.kept) end as depth,
            known.counted as exact,
            case when not known.counted then known.kept_at end as counted_at
        from (
            select known.*, coalesce(known.fresh is null and known.depth < known.counted_to, false) as counted
            from unnest(v_lanes, v_starts, v_kept, v_kept_at, v_fresh, v_counted.depths, v_counted.counted_to)
                as known (queue, job_type, priority, partition, start, kept, kept_at, fresh, depth, counted_to)
        ) as known
        left join lateral treadle.lane_head(
            row(known.queue, known.job_type, known.priority, known.partition)::treadle.lane, known.start
        ) as head on true
    ) as known
    group by known.queue, known.job_type, known.priority;
end
$$;
