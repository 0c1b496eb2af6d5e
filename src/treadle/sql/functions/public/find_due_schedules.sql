-- Schedules that are due or have no time yet, and the next one. p_declared: of those in code, only the ones with these
-- digests. Ordered as the index is, nulls first: otherwise all schedules would be read and sorted.
create or replace function treadle.find_due_schedules(p_limit int, p_declared varchar[] default null)
returns table (
    name varchar, expression varchar, timezone varchar, clocks_forward varchar, clocks_back varchar, missed varchar,
    missed_limit int, starts_at timestamptz, ends_at timestamptz, next_at timestamptz, last_at timestamptz,
    digest varchar, seconds double precision, clock timestamptz
)
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_clock constant timestamptz := clock_timestamp();
begin
    return query
    select
        found.name, found.expression, found.timezone, found.clocks_forward, found.clocks_back, found.missed,
        found.missed_limit, found.starts_at, found.ends_at, found.next_at, found.last_at,
        found.digest,
        case when found.next_at < 'infinity' then date_part('epoch', found.next_at - v_clock) end,
        v_clock
    from (
        (
            select known.*
            from treadle.schedules as known
            where known.paused_at is null
              and known.retired_at is null
              and known.next_at is null
              and (p_declared is null or known.digest is null or known.digest = any (p_declared))
              and (known.retry_at is null or known.retry_at <= v_clock)
            limit p_limit
        )
        union all
        (
            select known.*
            from treadle.schedules as known
            where known.paused_at is null
              and known.retired_at is null
              and known.next_at <= v_clock
              and (p_declared is null or known.digest is null or known.digest = any (p_declared))
              and (known.retry_at is null or known.retry_at <= v_clock)
            order by known.next_at nulls first
            limit p_limit
        )
        union all
        (
            select known.*
            from treadle.schedules as known
            where known.paused_at is null
              and known.retired_at is null
              and known.next_at > v_clock
              and known.next_at < 'infinity'
              and (p_declared is null or known.digest is null or known.digest = any (p_declared))
            order by known.next_at nulls first
            limit 1
        )
    ) as found;
end
$$;
