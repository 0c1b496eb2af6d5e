-- See fair_shares(). p_turn: by how much the circle is turned, from 0 to 1.
create or replace function treadle.divide_jobs(
    p_jobs int,
    p_weights double precision[],
    p_available int[],
    p_turn double precision
) returns int[]
language plpgsql immutable
as $$
declare
    v_divided int[] := array(select 0 from unnest(p_weights));
    v_left int := p_jobs;
    v_given int;
begin
    while v_left > 0 loop
        with piece as materialized (
            select
                each.nth,
                sum(each.weight) over (order by each.nth) - each.weight as begins,
                sum(each.weight) over (order by each.nth) as ends,
                sum(each.weight) over () as total,
                p_available[each.nth] - v_divided[each.nth] as room
            from unnest(p_weights) with ordinality as each (weight, nth)
            where p_available[each.nth] > v_divided[each.nth]
              and each.weight > 0
        )
        select
            array_agg(v_divided[each.nth] + coalesce(given.jobs, 0) order by each.nth),
            coalesce(sum(given.jobs), 0)
        into v_divided, v_given
        from unnest(p_weights) with ordinality as each (weight, nth)
        left join (
            select piece.nth, least(piece.room, count(*))::int as jobs
            from generate_series(0, v_left - 1) as nth
            cross join lateral (select p_turn + nth / v_left::double precision as place) as point
            join piece on (point.place - floor(point.place)) * piece.total >= piece.begins
                and (point.place - floor(point.place)) * piece.total < piece.ends
            group by piece.nth, piece.room
        ) as given on given.nth = each.nth;

        exit when v_given = 0;
        v_left := v_left - v_given;
    end loop;
    return v_divided;
end
$$;

comment on function treadle.divide_jobs(int, double precision[], int[], double precision)
    is 'Divides jobs by weights, no more than each can use.';
