-- A tick such that every transaction that has ended since the last tick has seen what was visible to it. For a
-- search that must not miss a job that was committed late: see safe_floor().
--
-- Only transactions that have ended since the last tick can have committed a job that it did not see. Let x be the oldest
-- of them. The newest tick with a lower id took its snapshot before it took its id. So x saw everything that was visible to
-- that tick, and placed its jobs accordingly (see public/tick.sql).
--
-- If there is no such tick, the id is 0: then no floor is safe. Nor is one if the clock was set back since the last tick.
create or replace function treadle.safe_tick(p_snapshot pg_snapshot) returns treadle.ticks
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_last treadle.ticks;
    v_ended xid8;
    v_safe treadle.ticks;
begin
    select tick.*
    into v_last
    from treadle.ticks as tick
    order by tick.xid desc
    limit 1;

    select was_running.xid
    into v_ended
    from unnest(v_last.running) as was_running (xid)
    where pg_visible_in_snapshot(was_running.xid, p_snapshot)
    order by was_running.xid
    limit 1;

    select tick.*
    into v_safe
    from treadle.ticks as tick
    where tick.xid < least(v_last.next_xid, v_ended)
      -- A tick from the future comes from a dump of another server.
      and v_last.next_xid <= pg_snapshot_xmax(p_snapshot)
      and v_last.ticked_at <= clock_timestamp()
    order by tick.xid desc
    limit 1;

    if v_safe.xid is null then
        v_safe.xid := '0';
        v_safe.next_xid := '0';
        v_safe.running := '{}';
    end if;
    return v_safe;
end
$$;
