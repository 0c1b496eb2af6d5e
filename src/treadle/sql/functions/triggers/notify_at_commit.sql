-- At commit of a transaction that called wake_workers(): notifies, unless the last notification will still be answered.
--
-- The worker that a notification wakes claims until there is nothing left, and then calls next_due(), which sets the clock
-- to 0 or 1: it wants to be notified again. If it has no room for more jobs, it wakes another one. So between two
-- such calls one notification is enough.
--
-- After 100 ms without such a call all workers are busy, or the worker has died, or the transaction that set the clock failed
-- after that, at the very end of its commit. In doubt all workers are woken; busy ones ignore it.
--
-- 1 was set by a worker that understands numbers: it and its peers agree by the number on which of them looks for jobs. 0 was
-- set by a client that does not, such as a program in another language.
--
-- Runs with the rights of its owner: at commit, the current role may be any.
create or replace function treadle.notify_at_commit() returns trigger
language plpgsql
security definer
as $$
declare
    v_microseconds constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_last bigint;
    v_message text;
begin
    select clock.last_value into v_last from treadle.wake_clock as clock;

    if v_last in (0, 1) or abs(v_microseconds - v_last) > 100000 then
        perform setval('treadle.wake_clock', v_microseconds);
        v_message := case when v_last = 1 then 'jobs ' || v_microseconds else '' end;
        perform treadle.send_notification('work', v_message);
    end if;

    return null;
end
$$;

comment on function treadle.notify_at_commit() is 'Trigger: at commit, notifies an idle worker if one wants to be notified.';

drop trigger if exists notify_at_commit on treadle.wake_requests;

create constraint trigger notify_at_commit
    after insert on treadle.wake_requests
    deferrable initially deferred
    for each row
    execute function treadle.notify_at_commit();
