-- The first step of a claim, as oldest_of_lanes(), for lanes whose values of an argument take turns (see
-- type_settings): which lanes, and how many jobs of each. Without limits, no job is read for it, unless there are
-- several job types that do not take turns: then each of them gets as many as it has among the oldest.
--
-- Nothing is remembered about who had how many. Each lane has a piece of a circle, as long as its weight; the jobs are
-- points at equal distances on it, and each call turns the circle by the golden ratio. So after any number of calls,
-- each lane has had its part but for a few jobs. The other lanes follow in a random order, with a job each at least, if
-- a lane has fewer jobs than its share. Under limits, the claim locks what is picked for others: so jobs are read until
-- there are enough, and only lanes that have some are picked.
create or replace function treadle.fair_shares(
    p_fair varchar[], -- the job types whose lanes take turns; with an empty one, the types do, too
    p_lanes treadle.lane_range[],
    p_due timestamptz,
    p_wanted int,
    p_lockers xid[],
    p_limited boolean,
    out picked treadle.lane_range[],
    out shares int[]
)
language plpgsql
set treadle.plan = callers
as $$
declare
    v_place constant double precision := nextval('treadle.fair_turns') * 0.6180339887498949;
    v_by_age constant boolean := '' <> all (p_fair)
        and exists (
            select
            from unnest(p_lanes) as range
            where (range.lane).job_type <> all (p_fair)
               or (range.lane).job_type <> ((p_lanes[1]).lane).job_type
        );
    v_weighted constant boolean := exists (select from treadle.fair_weights);
    v_oldest treadle.lane_range[];
    v_counts int[];
    v_picked treadle.lane_range[];
    v_shares int[];
    v_found int;
begin
    if v_by_age then
        select oldest.picked, oldest.shares
        into v_oldest, v_counts
        from treadle.oldest_of_lanes(p_lanes, p_due, p_wanted, p_lockers) as oldest;
    end if;

    loop
        with lane as materialized (
            select
                range.lane, range.start, range.nth, (range.lane).job_type, coalesce(oldest.jobs, 0) as jobs,
                -- Those of weight 0 come when there are no others.
                case
                    when max(coalesce(own.weight, 1)) over (partition by (range.lane).job_type) = 0 then 1
                    else coalesce(own.weight, 1)
                end::double precision as weight
            from unnest(p_lanes) with ordinality as range (lane, start, nth)
            left join unnest(v_oldest, v_counts) as oldest (lane, start, jobs) on oldest.lane = range.lane
            left join lateral (
                select own.weight
                from treadle.type_settings as setting
                join treadle.fair_weights as own on own.job_type = setting.weights_of
                where v_weighted
                  and setting.job_type = (range.lane).job_type
                  and own.key = treadle.limit_key(setting.fair_by, (range.lane).partition)
                limit 1
            ) as own on true
        ),
        kind as materialized (
            select
                known.job_type,
                case
                    when v_by_age then known.jobs
                    else ceil(known.nth / known.kinds * p_wanted - turned.first) - ceil((known.nth - 1) / known.kinds * p_wanted - turned.first)
                end::int as jobs
            from (
                select
                    lane.job_type, sum(lane.jobs) as jobs,
                    row_number() over (order by lane.job_type)::double precision as nth, count(*) over () as kinds
                from lane
                group by lane.job_type
            ) as known
            cross join lateral (
                select v_place * p_wanted - floor(v_place * p_wanted) as first
            ) as turned
        ),
        share as materialized (
            select
                piece.lane, piece.start, piece.weight,
                case
                    when piece.job_type = any (p_fair) or '' = any (p_fair)
                        -- The first point is a part of a step behind the beginning of the circle.
                        then ceil(piece.ends / piece.total * piece.wanted - piece.first)
                            - ceil((piece.ends - piece.weight) / piece.total * piece.wanted - piece.first)
                    else piece.jobs
                end::int as jobs
            from (
                select
                    lane.*,
                    kind.jobs as wanted,
                    v_place * kind.jobs - floor(v_place * kind.jobs) as first,
                    sum(lane.weight) over (partition by lane.job_type order by lane.nth) as ends,
                    sum(lane.weight) over (partition by lane.job_type) as total
                from lane
                join kind on kind.job_type = lane.job_type
            ) as piece
        )
        select array_agg(row(next.lane, next.start)::treadle.lane_range order by next.nth), array_agg(next.jobs order by next.nth)
        into picked, shares
        from (
            select share.lane, share.start, greatest(share.jobs, 1) as jobs, row_number() over (order by share.jobs > 0 desc, random()) as nth
            from share
            where share.jobs > 0
               or share.weight > 0
        ) as next;
        exit when not p_limited or picked is null;

        select array_agg(picked[found.nth] order by found.nth), array_agg(shares[found.nth] order by found.nth), sum(found.jobs)
        into v_picked, v_shares, v_found
        from (
            select head.nth, count(*) as jobs
            from (
                select range.nth
                from unnest(picked, shares) with ordinality as range (lane, start, jobs, nth)
                cross join lateral (
                    select
                    from treadle.lane_jobs(range.lane, range.start) as job
                    where job.run_at <= p_due
                      and not job.locked_by = any (p_lockers)
                      and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                    limit range.jobs
                ) as job
                limit p_wanted
            ) as head
            group by head.nth
        ) as found;
        -- Without any, those of weight 0 come.
        p_lanes := case
            when v_picked is null then array(select range from unnest(p_lanes) as range where range <> all (picked))
            else p_lanes
        end;
        picked := v_picked;
        shares := v_shares;
        exit when v_found >= p_wanted or p_lanes = '{}' or cardinality(picked) = cardinality(p_lanes);
        -- Those that have jobs divide them again.
        p_lanes := coalesce(picked, p_lanes);
    end loop;
end
$$;
