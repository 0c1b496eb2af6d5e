-- Trigger: at commit of a transaction that called wake_workers(), which says why, notifies an idle worker if one wants
-- to be notified. Runs with the rights of its owner: at commit, the current role may be any.
create or replace function treadle.notify_at_commit() returns trigger
language plpgsql
security definer
as $$
begin
    perform treadle.wake_workers(clock_timestamp(), true);
    return null;
end
$$;

create constraint trigger notify_at_commit
    after insert on treadle.wake_requests
    deferrable initially deferred
    for each row
    execute function treadle.notify_at_commit();
