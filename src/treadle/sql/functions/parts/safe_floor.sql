-- A floor below which no transaction that saw the tick p_safe has placed a job; null: every job must be searched. The
-- planner inlines this function.
--
-- p_safe comes from safe_tick(): what was visible to that tick, the transactions in question have seen, too. They may
-- also have seen anything written later, hence the minimum. Visible to the tick was what its snapshot saw: next_xid and
-- running. Its own id says less, because others may have taken ids in between.
create or replace function treadle.safe_floor(p_lane treadle.lane, p_safe treadle.ticks)
returns table (floor timestamptz)
language sql stable
as $$
    select min(known.floor)
    from treadle.floors as known
    where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, p_lane)
      and known.xid >= (
            select seen.xid
            from treadle.floors as seen
            where treadle.is_in_lane(seen.queue, seen.job_type, seen.priority, seen.partition, p_lane)
              and seen.xid < p_safe.next_xid
              and seen.xid <> all (p_safe.running)
            order by seen.xid desc
            limit 1
      )
$$;
