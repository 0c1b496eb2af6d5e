-- Divides jobs of one priority among lanes whose values of an argument take turns (see type_settings): how many each of them gets,
-- instead of p_shares, which goes by age. Each job type keeps what it got, unless the types take turns as well.
--
-- Nothing is remembered about who had how many. Each lane has a piece of a circle, as long as its weight; the jobs are points
-- at equal distances on it, and each call turns the circle by the golden ratio. So after any number of calls, each lane has had
-- its part but for a few jobs. What a lane cannot use goes to the others.
create or replace function treadle.fair_shares(
    p_fair varchar[], -- the job types whose lanes take turns; with an empty one, the types do, too
    p_lanes treadle.lane[],
    p_available int[],
    p_shares int[]
) returns int[]
language plpgsql
as $$
declare
    v_place constant double precision := nextval('treadle.fair_turns') * 0.6180339887498949;
    v_turn constant double precision := v_place - floor(v_place);
    v_types varchar[];
    v_totals int[];
    v_lanes int[];
    v_weights double precision[];
    v_divided int[];
begin
    select array_agg(known.job_type), array_agg(known.jobs)
    into v_types, v_totals
    from (
        select lane.job_type, sum(lane.share)::int as jobs
        from unnest(p_lanes, p_shares) as lane (queue, job_type, priority, partition, share)
        group by lane.job_type
        order by lane.job_type
    ) as known;

    if '' = any (p_fair) then
        v_totals := treadle.divide_jobs(
            (select sum(share)::int from unnest(p_shares) as share),
            array(select 1.0 from unnest(v_types)),
            array(
                select sum(lane.available)::int
                from unnest(p_lanes, p_available) as lane (queue, job_type, priority, partition, available)
                group by lane.job_type
                order by lane.job_type
            ),
            v_turn
        );
    end if;

    for v_nth in 1 .. cardinality(v_types) loop
        continue when v_types[v_nth] <> all (p_fair) and '' <> all (p_fair);

        select array_agg(lane.nth order by lane.nth), array_agg(coalesce(chosen.weight, 1) order by lane.nth)
        into v_lanes, v_weights
        from unnest(p_lanes) with ordinality as lane (queue, job_type, priority, partition, nth)
        left join lateral (
            select own.weight
            from treadle.type_settings as setting
            join treadle.fair_weights as own on own.job_type = setting.weights_of
            where setting.job_type = lane.job_type
              and own.key = treadle.limit_key(setting.fair_by, lane.partition)
            limit 1
        ) as chosen on true
        where lane.job_type = v_types[v_nth];

        v_divided := treadle.divide_jobs(
            v_totals[v_nth], v_weights, array(select p_available[lane] from unnest(v_lanes) as lane), v_turn
        );
        for v_lane in 1 .. cardinality(v_lanes) loop
            p_shares[v_lanes[v_lane]] := v_divided[v_lane];
        end loop;
    end loop;
    return p_shares;
end
$$;

comment on function treadle.fair_shares(varchar[], treadle.lane[], int[], int[])
    is 'Divides jobs among lanes that take turns.';
