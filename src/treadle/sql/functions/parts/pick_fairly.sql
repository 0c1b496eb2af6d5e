-- The first step of a claim, as oldest_of_lanes(), for lanes that take turns: which lanes, how many jobs of each, and where they
-- begin. Up to p_head jobs of each lane are read.
create or replace function treadle.pick_fairly(
    p_fair varchar[],
    p_now timestamptz,
    p_lockers xid[],
    p_wanted int,
    p_head int,
    p_lanes treadle.lane_range[],
    out picked treadle.lane_range[],
    out shares int[],
    out jobs int
)
language plpgsql
as $$
declare
    v_available int[];
begin
    with head as materialized (
        select head.run_at, range.nth
        from unnest(p_lanes) with ordinality as range (lane, start, nth)
        cross join lateral (
            select job.run_at
            from treadle.lane_jobs(range.lane, range.start) as job
            where job.run_at <= p_now
              and not job.locked_by = any (p_lockers)
              and (job.key is null or treadle.is_head_of_key(job.key, job.id))
            order by job.run_at
            limit p_head
        ) as head
    )
    select array_agg(share.range), array_agg(share.jobs), array_agg(share.available)
    into picked, shares, v_available
    from (
        select
            row((p_lanes[next.nth]).lane, min(next.run_at))::treadle.lane_range as range,
            count(*) filter (where next.place <= p_wanted)::int as jobs,
            count(*)::int as available
        from (
            select head.nth, head.run_at, row_number() over (order by head.run_at) as place
            from head
        ) as next
        group by next.nth
    ) as share;

    if picked is not null then
        shares := treadle.fair_shares(
            p_fair, array(select range.lane from unnest(picked) as range), v_available, shares
        );
        select array_agg(row(chosen.lane, chosen.start)::treadle.lane_range), array_agg(chosen.share)
        into picked, shares
        from unnest(picked, shares) as chosen (lane, start, share)
        where chosen.share > 0;
    end if;
    jobs := coalesce((select sum(share) from unnest(shares) as share), 0);
end
$$;

comment on function treadle.pick_fairly(varchar[], timestamptz, xid[], int, int, treadle.lane_range[])
    is 'Which lanes a claim takes jobs from, and how many of each, if lanes take turns.';
