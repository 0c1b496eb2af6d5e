-- A part of tick(): deletes dormant lanes without jobs that no running transaction has seen active, and returns how
-- many. p_oldest is the newest tick that is older than every running transaction.
create or replace function treadle.delete_unused_lanes(p_oldest treadle.ticks, p_limit int) returns int
language plpgsql
set enable_seqscan = off
as $$
declare
    v_deleted int;
begin
    with unused as (
        delete from treadle.lanes as lane
        where lane.id = any (array(
                select dormant.id
                from treadle.lanes as dormant
                where dormant.dormant_xid < p_oldest.next_xid
                  and dormant.dormant_xid <> all (p_oldest.running)
                  and dormant.limit_name is null
                  and dormant.wakes_at is null
                limit p_limit
                for update skip locked
              ))
        returning row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane as lane
    ),
    forgotten as (
        delete from treadle.floors as known
        using unused
        where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, unused.lane)
    )
    select count(*) into v_deleted from unused;
    return v_deleted;
end
$$;
