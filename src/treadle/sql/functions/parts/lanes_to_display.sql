-- The lanes for display, and where to start to count the jobs of each. If there are more than p_limit, those that were
-- used last: to find the deepest, all would have to be counted. The planner inlines this function.
create or replace function treadle.lanes_to_display(p_safe treadle.ticks, p_limit int)
returns table (lane treadle.lane, start timestamptz)
language sql stable
as $$
    select known.lane, known.start
    from treadle.lanes_to_search(p_safe) as known
    left join lateral treadle.lane_floor(known.lane) as newest on true
    order by greatest(known.changed_at, newest.floor) desc nulls last, known.lane
    limit p_limit
$$;
