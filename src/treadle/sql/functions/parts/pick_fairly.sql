-- The first step of a claim, as in claim_lanes(), for lanes that take turns: which lanes, how many jobs of each, and where they
-- begin. Up to p_head jobs of each lane are read.
create or replace function treadle.pick_fairly(
    p_fair varchar[],
    p_now timestamptz,
    p_lockers xid[],
    p_wanted int,
    p_head int,
    p_priority int,
    p_queues varchar[],
    p_job_types varchar[],
    p_partitions varchar[],
    p_starts timestamptz[],
    out lanes int[],
    out shares int[],
    out begins timestamptz[],
    out jobs int
)
language plpgsql
as $$
declare
    v_available int[];
begin
    with head as materialized (
        select head.run_at, lane.nth as lane
        from unnest(p_queues, p_job_types, p_partitions, p_starts) with ordinality
            as lane (queue, job_type, partition, start, nth)
        cross join lateral (
            select job.run_at
            from treadle.lane_jobs(
                    row(lane.queue, lane.job_type, p_priority, lane.partition)::treadle.lane, lane.start
                 ) as job
            where job.run_at <= p_now
              and not job.locked_by = any (p_lockers)
              and (job.key is null or treadle.is_head_of_key(job.key, job.id))
            order by job.run_at
            limit p_head
        ) as head
    )
    select array_agg(lane.lane), array_agg(lane.share), array_agg(lane.begins), array_agg(lane.available)
    into lanes, shares, begins, v_available
    from (
        select
            next.lane,
            count(*) filter (where next.nth <= p_wanted)::int as share,
            min(next.run_at) as begins,
            count(*)::int as available
        from (
            select head.lane, head.run_at, row_number() over (order by head.run_at) as nth
            from head
        ) as next
        group by next.lane
    ) as lane;

    if lanes is not null then
        shares := treadle.fair_shares(
            p_fair,
            array(select p_job_types[lane] from unnest(lanes) as lane),
            array(select p_partitions[lane] from unnest(lanes) as lane),
            v_available, shares
        );
        select array_agg(chosen.lane), array_agg(chosen.share), array_agg(chosen.begins)
        into lanes, shares, begins
        from unnest(lanes, shares, begins) as chosen (lane, share, begins)
        where chosen.share > 0;
    end if;
    jobs := coalesce((select sum(share) from unnest(shares) as share), 0);
end
$$;

comment on function treadle.pick_fairly(varchar[], timestamptz, xid[], int, int, int, varchar[], varchar[], varchar[], timestamptz[])
    is 'Which lanes a claim takes jobs from, and how many of each, if lanes take turns.';
