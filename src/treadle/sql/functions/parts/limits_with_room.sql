-- The limits for which lanes are parked and that may have room now, or later: when. From their openings; and of lanes that were
-- parked a moment ago, by a look: whoever ended a job at that moment may not have seen that, and noted no opening. An
-- opening older than c_recent is left to the tick: see unpark_lanes().
create or replace function treadle.limits_with_room(p_now timestamptz, p_until timestamptz)
returns table (name varchar, key varchar, opens_at timestamptz)
language plpgsql stable
as $$
declare
    c_recent constant interval := '10 seconds'; -- more than in unpark_lanes.sql
    c_openings constant int := 100;
    c_parked constant int := 20;
begin
    return query
    select known.name, known.key, min(known.opens_at)
    from (
        (
            select opening.name, opening.key, opening.opens_at
            from treadle.limit_openings as opening
            where opening.opens_at > p_now - c_recent
              and opening.opens_at <= p_until
            order by opening.opens_at
            limit c_openings
        )
        union all
        select parked.parked_name, parked.parked_key, p_now
        from (
            select distinct lane.parked_name, lane.parked_key
            from (
                select lane.parked_name, lane.parked_key
                from treadle.lanes as lane
                where lane.parked_name is not null
                  and lane.parked_at > p_now - c_recent
                order by lane.parked_at desc
                limit c_parked
            ) as lane
        ) as parked
        where treadle.has_room(parked.parked_name, parked.parked_key, p_now)
    ) as known
    group by known.name, known.key;
end
$$;

comment on function treadle.limits_with_room(timestamptz, timestamptz)
    is 'The limits for which lanes are parked and that may have room by p_until, and when.';
