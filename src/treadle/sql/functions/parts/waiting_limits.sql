-- The limits that lanes wait for, and their keys, each with the time of one of its lanes: one step in idx_lanes_limit
-- for each, up to p_limit. Null for p_name: of all limits.
create or replace function treadle.waiting_limits(p_name varchar, p_limit int)
returns table (name varchar, key varchar, changed_at timestamptz)
language sql stable
as $$
    with recursive waiting as (
        (
            select lane.limit_name, lane.limit_key, lane.changed_at, 1 as nth
            from treadle.lanes as lane
            where lane.limit_name is not null
              and (lane.limit_name, lane.limit_key) >= (coalesce(p_name, ''), '')
            order by lane.limit_name, lane.limit_key
            limit 1
        )
        union all
        select following.limit_name, following.limit_key, following.changed_at, waiting.nth + 1
        from waiting
        cross join lateral (
            select lane.limit_name, lane.limit_key, lane.changed_at
            from treadle.lanes as lane
            where lane.limit_name is not null
              and (lane.limit_name, lane.limit_key) > (waiting.limit_name, waiting.limit_key)
            order by lane.limit_name, lane.limit_key
            limit 1
        ) as following
        where waiting.nth < p_limit
          and (p_name is null or waiting.limit_name = p_name)
    )
    select waiting.limit_name, waiting.limit_key, waiting.changed_at
    from waiting
    where p_name is null or waiting.limit_name = p_name
$$;
