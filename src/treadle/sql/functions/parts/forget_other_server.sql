-- Removes the transaction ids that come from the dump of another server: a tick from the future shows that such a dump
-- was restored. Those of events give the order in which app.events() returns them, and hide those that a running
-- transaction might precede. Ids that this server has not reached would hide them for years, so restored events come
-- first.
--
-- Runs with the rights of its owner: a worker cannot change events.
create or replace function treadle.forget_other_server() returns void
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    v_own constant xid8 := pg_current_xact_id();
begin
    if not exists (select from treadle.ticks as tick where tick.xid > v_own) then
        return;
    end if;

    delete from treadle.ticks;
    delete from treadle.floors;

    update treadle.lanes as lane
    set dormant_xid = null,
        wakes_at = null,
        limit_name = null,
        limit_key = null
    where lane.dormant_xid is not null;

    update treadle.events as event
    set transaction = '0'
    where event.transaction > v_own;
end
$$;
