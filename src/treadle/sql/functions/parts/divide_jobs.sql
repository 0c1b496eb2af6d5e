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
    v_first double precision;
    v_given int;
begin
    while v_left > 0 loop
        v_first := p_turn * v_left - floor(p_turn * v_left);
        select array_agg(given.divided + given.jobs order by given.nth), sum(given.jobs)
        into v_divided, v_given
        from (
            select
                piece.nth,
                piece.divided,
                -- The points are v_left equal steps apart; the first one is a part of a step, v_first, behind the circle's beginning.
                least(
                    piece.room,
                    ceil(piece.ends / piece.total * v_left - v_first)
                        - ceil((piece.ends - piece.weight) / piece.total * v_left - v_first)
                )::int as jobs
            from (
                select
                    each.nth,
                    each.divided,
                    each.available - each.divided as room,
                    open.weight,
                    sum(open.weight) over (order by each.nth) as ends,
                    nullif(sum(open.weight) over (), 0) as total
                from unnest(p_weights, p_available, v_divided) with ordinality as each (weight, available, divided, nth)
                cross join lateral (
                    select case when each.available > each.divided then each.weight else 0 end as weight
                ) as open
            ) as piece
        ) as given;

        exit when coalesce(v_given, 0) = 0;
        v_left := v_left - v_given;
    end loop;
    return v_divided;
end
$$;

comment on function treadle.divide_jobs(int, double precision[], int[], double precision)
    is 'Divides jobs by weights, no more than each can use.';
