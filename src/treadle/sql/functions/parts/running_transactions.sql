-- The transactions that were running when the snapshot was taken. A claim leaves out the rows that they have locked
-- while it reads, which is cheaper than trying each lock. That is only a guess, because xmax may be the id of
-- something else.
create or replace function treadle.running_transactions() returns xid[]
language plpgsql stable
as $$
begin
    return array(select running::xid from pg_snapshot_xip(pg_current_snapshot()) as running);
end
$$;
