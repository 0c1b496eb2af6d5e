-- After the clock was set back from p_before: no floor is valid any more, and some other times are in the future. A
-- part of tick().
create or replace function treadle.reset_floors(p_before timestamptz, p_now timestamptz) returns void
language plpgsql
set enable_seqscan = on -- it reads all floors
as $$
declare
    v_until bigint;
begin
    if p_before > p_now + interval '1 second' then
        perform treadle.note_clock_jump(p_before, p_now);
    end if;

    delete from treadle.floors as known
    where known.ctid = any (array(select old.ctid from treadle.floors as old for update skip locked));

    update treadle.lanes as lane
    set changed_at = p_now
    where lane.id = any (array(
            select future.id
            from treadle.lanes as future
            where treadle.is_listed(future.dormant_xid, future.limit_name)
              and future.changed_at > p_now
            for update skip locked
          ));

    -- The times of limits, so that nobody waits for longer than intended.
    update treadle.limit_holders as holders
    set full_at = case
            when holders.full_at > p_now then greatest(holders.full_at - (p_before - p_now), p_now)
            else holders.full_at
        end,
        closed_until = case
            when holders.closed_until > p_now then greatest(holders.closed_until - (p_before - p_now), p_now)
            else holders.closed_until
        end
    where holders.full_at > p_now
       or holders.closed_until > p_now;
    update treadle.limit_openings as opening
    set opens_at = greatest(opening.opens_at - (p_before - p_now), p_now)
    where opening.opens_at > p_now;

    -- Those who wait for jobs, or watch them, ask again before that.
    v_until := extract(epoch from p_now + interval '5 minutes') * 1000000;
    if (select awaited.last_value from treadle.awaited as awaited) > v_until then
        perform setval('treadle.awaited', v_until);
    end if;
    if (select watched.last_value from treadle.watched as watched) > v_until then
        perform setval('treadle.watched', v_until);
    end if;
end
$$;
