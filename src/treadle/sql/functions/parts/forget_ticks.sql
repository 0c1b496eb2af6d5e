-- A part of tick(): deletes ticks and floors that no running transaction needs. p_oldest is the newest tick that is
-- older than every running transaction.
create or replace function treadle.forget_ticks(p_oldest treadle.ticks) returns void
language plpgsql
set enable_seqscan = off
as $$
begin
    delete from treadle.ticks as tick
    where tick.xid = any (array(
            select old.xid
            from treadle.ticks as old
            where old.xid < p_oldest.xid
            for update skip locked
          ));

    delete from treadle.floors as known
    where known.ctid = any (array(
            select old.ctid
            from treadle.floors as old
            where old.xid < p_oldest.xid
              and exists (
                    select
                    from treadle.floors as newer
                    where treadle.is_in_lane(
                            newer.queue, newer.job_type, newer.priority, newer.partition,
                            row(old.queue, old.job_type, old.priority, old.partition)::treadle.lane
                          )
                      and newer.xid > old.xid
                      and newer.xid < p_oldest.next_xid
                      and newer.xid <> all (p_oldest.running)
              )
            for update skip locked
          ));
end
$$;
