-- Renamed in version 0.2 to find_lanes(). Processes of version 0.1 call it by this name during a rolling upgrade.
-- May be dropped in version 0.3.
create or replace function treadle.see_lanes(p_budget int default 50000) returns table (
    queue varchar, job_type varchar, priority int, depth bigint, counted_to int, due_first timestamptz, paused boolean
)
language sql stable
as $$
    select * from treadle.find_lanes(p_budget)
$$;

comment on function treadle.see_lanes(int) is 'Deprecated: use find_lanes(). Dropped in version 0.3.';
