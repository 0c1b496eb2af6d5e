-- Counts the jobs of lanes along idx_jobs_claimable, from p_starts on. p_budget is shared by those that need it: first
-- every lane is counted up to an equal share, then the rest is divided among the lanes that have more, and once again.
-- So a lane with 7,000 jobs among 60 short ones is counted completely. Each round reads at most p_budget entries, or
-- 100 per lane.
create or replace function treadle.count_lanes(
    p_lanes treadle.lane[],
    p_starts timestamptz[],
    p_known bigint[], -- lanes whose depth is known are not counted
    p_budget int,
    out depths bigint[],
    out counted_to int[] -- a lane with fewer jobs was counted completely
)
language plpgsql stable
set treadle.plan = index_ranges
as $$
#variable_conflict use_column
declare
    c_rounds constant int := 3;
    c_least constant int := 100;
    v_left bigint := p_budget;
    v_open int := (select count(*) from generate_subscripts(p_lanes, 1) as each (nth) where p_known[each.nth] is null);
    v_limit int := 0;
    v_lane record;
begin
    depths := p_known;
    for v_round in 1 .. c_rounds loop
        exit when v_open = 0 or greatest(c_least, v_left / v_open) <= v_limit;
        v_limit := greatest(c_least, v_left / v_open);
        v_left := p_budget;
        v_open := 0;
        for v_lane in
            select lane.nth, waiting.jobs
            from unnest(p_lanes, p_starts) with ordinality as lane (queue, job_type, priority, partition, start, nth)
            cross join lateral (
                select count(*) as jobs
                from (
                    select
                    from treadle.lane_jobs(
                            row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane, lane.start
                         )
                    limit v_limit
                ) as counted
            ) as waiting
            where p_known[lane.nth] is null
              and coalesce(depths[lane.nth] >= counted_to[lane.nth], true)
        loop
            depths[v_lane.nth] := v_lane.jobs;
            counted_to[v_lane.nth] := v_limit;
        end loop;
        select p_budget - coalesce(sum(lane.depth) filter (where lane.depth < lane.counted_to), 0),
            count(*) filter (where lane.depth >= lane.counted_to)
        into v_left, v_open
        from unnest(depths, counted_to) as lane (depth, counted_to);
    end loop;
end
$$;
