-- The table may list a lane more than once until the next tick merges the rows; the highest bounds are the valid ones.
create or replace function treadle.known_lanes()
returns table (lane treadle.lane, opened_at timestamptz, floor timestamptz, settled timestamptz)
language sql stable
as $$
    select
        row(known.queue, known.job_type, known.priority)::treadle.lane,
        max(known.opened_at),
        max(known.floor),
        max(known.settled)
    from treadle.lanes as known
    group by known.queue, known.job_type, known.priority
$$;

comment on function treadle.known_lanes() is 'Every lane once, with its bounds.';
