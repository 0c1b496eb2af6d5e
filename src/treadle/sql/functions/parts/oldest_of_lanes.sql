-- Of lanes of one priority: which have the oldest p_wanted jobs, from when on, and how many of them. It locks nothing.
-- A part of claims, whose settings fix the plan. It reads a few jobs of each lane, then more of those lanes only that
-- can have more of the oldest: jobs are often enqueued in bursts.
create or replace function treadle.oldest_of_lanes(
    p_lanes treadle.lane_range[],
    p_due timestamptz,
    p_wanted int,
    p_lockers xid[], -- rows that these transactions have locked are left out
    out picked treadle.lane_range[], -- which lanes, from when on
    out shares int[], -- how many jobs of each
    out jobs int, -- how many there were: more than their sum if others have locked some meanwhile
    out per_lane int -- how many jobs of each lane were read
)
language plpgsql stable
set treadle.plan = callers
as $$
declare
    -- Usually enough if they are spread evenly.
    v_each constant double precision := p_wanted::double precision / cardinality(p_lanes);
    v_most int; -- of one lane
    v_read int; -- of all lanes
    v_nths int[]; -- of each job that was read, its lane
    v_times timestamptz[]; -- and its time
begin
    per_lane := least(p_wanted, ceil(v_each + 3 * sqrt(v_each)));

    with head as materialized (
        select head.run_at, range.nth
        from unnest(p_lanes) with ordinality as range (lane, start, nth)
        cross join lateral (
            select job.run_at
            from treadle.lane_jobs(range.lane, range.start) as job
            where job.run_at <= p_due
              and not job.locked_by = any (p_lockers)
              and (job.key is null or treadle.is_head_of_key(job.key, job.id))
            order by job.run_at
            limit per_lane
        ) as head
    )
    select
        array_agg(row((p_lanes[share.nth]).lane, share.begins)::treadle.lane_range), array_agg(share.jobs),
        coalesce(sum(share.jobs), 0), max(share.jobs),
        (select array_agg(head.nth) from head), (select array_agg(head.run_at) from head)
    into picked, shares, jobs, v_most, v_nths, v_times
    from (
        select head.nth, count(*) as jobs, min(head.run_at) as begins
        from head
        group by head.nth
    ) as share;

    -- These are all jobs that are due.
    if jobs <= p_wanted and v_most < per_lane or jobs = 0 then
        return;
    end if;

    v_read := jobs;
    with head as materialized (
        select head.nth, head.run_at
        from unnest(v_nths, v_times) as head (nth, run_at)
    ),
    -- The lanes of which not all jobs may have been read, and the last job that was.
    reached as materialized (
        select head.nth, max(head.run_at) as last
        from head
        group by head.nth
        having count(*) = per_lane
    ),
    -- The oldest p_wanted jobs are not younger than "last". Those before "first" are known to be among them; so of each lane
    -- at most "jobs" more can be.
    bound as materialized (
        select
            coalesce((select head.run_at from head order by head.run_at offset p_wanted - 1 limit 1), 'infinity') as last,
            p_wanted + 1 - (select count(*) from head where head.run_at < known.first) as jobs
        from (
            select min(reached.last) as first
            from reached
        ) as known
    ),
    further as materialized (
        select further.run_at, reached.nth
        from reached
        cross join lateral (
            select job.run_at
            from treadle.lane_jobs((p_lanes[reached.nth]).lane, reached.last) as job
            where job.run_at <= p_due
              and job.run_at <= (select bound.last from bound)
              and not job.locked_by = any (p_lockers)
              and (job.key is null or treadle.is_head_of_key(job.key, job.id))
            order by job.run_at
            limit (select bound.jobs from bound)
        ) as further
        where reached.last <= (select bound.last from bound)
    )
    select
        array_agg(row((p_lanes[share.nth]).lane, share.begins)::treadle.lane_range), array_agg(share.jobs),
        coalesce(sum(share.jobs), 0)
    into picked, shares, jobs
    from (
        select next.nth, count(*) as jobs, min(next.run_at) as begins
        from (
            select known.nth, known.run_at
            from (
                select head.nth, head.run_at
                from head
                where (head.nth, head.run_at) not in (select reached.nth, reached.last from reached)
                union all
                select further.nth, further.run_at
                from further
            ) as known
            order by known.run_at
            limit p_wanted
        ) as next
        group by next.nth
    ) as share;
    jobs := greatest(jobs, least(v_read, p_wanted));
end
$$;
