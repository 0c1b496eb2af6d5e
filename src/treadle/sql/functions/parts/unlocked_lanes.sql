-- Of several lanes, those whose limits no other claim seems to have locked. Then a claim reads only jobs that it may take: with eight
-- claims at a time, each would otherwise read the same ones. It locks nothing: that is for the jobs that are taken.
create or replace function treadle.unlocked_lanes(p_lockers xid[], p_lanes treadle.lane_range[]) returns treadle.lane_range[]
language plpgsql
as $$
begin
    return array(
        select row(range.lane, range.start)::treadle.lane_range
        from unnest(p_lanes) with ordinality as range (lane, start, nth)
        where not exists (
            select
            from treadle.limits_of((range.lane).queue, (range.lane).job_type, (range.lane).partition) as rule
            cross join lateral (
                select
                from treadle.limit_keys as known
                where known.name = rule.name
                  and known.key = rule.key
                  and known.xmax = any (p_lockers)
                limit 1
            ) as locked
        )
        order by range.nth
    );
end
$$;

comment on function treadle.unlocked_lanes(xid[], treadle.lane_range[]) is 'Those of these lanes whose limits no other claim seems to have locked.';
