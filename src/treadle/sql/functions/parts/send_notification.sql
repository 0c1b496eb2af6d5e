-- Sends a notification on channel(p_kind), unless this session has switched them off (set treadle.notify = off, for
-- transactions that must not contain a NOTIFY), or the server's queue of notifications is almost full: then the
-- transaction could not commit. Notifications are hints; nothing depends on them.
create or replace function treadle.send_notification(p_kind text, p_payload text) returns void
language plpgsql
as $$
begin
    if current_setting('treadle' || '.notify', true) = 'off' or pg_notification_queue_usage() > 0.9 then
        return;
    end if;
    perform pg_notify(treadle.channel(p_kind), p_payload);
end
$$;
