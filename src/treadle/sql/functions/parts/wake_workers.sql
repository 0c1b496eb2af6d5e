-- Notifies an idle worker of a job that is due at p_due: when this transaction commits, or with p_now in this call. It
-- is only a hint: idle workers also poll, every second or, asleep, every minute.
--
-- Transactions that send a NOTIFY commit one after the other: with 48 clients, enqueueing drops to a quarter of the
-- speed if each of them sends one. So a notification is sent only if a worker has gone idle since the last one. That is
-- decided at commit, by notify_at_commit(): a transaction that stays open, or rolls back, keeps no other one from
-- notifying. With p_now nothing comes between this call and the commit.
--
-- The worker that a notification wakes claims until there is nothing left, and then calls next_due(), which sets the
-- clock to 0 or 1: it wants to be notified again. If it has no room for more jobs, it wakes another one. So between two
-- such calls one notification is enough. After 100 ms without such a call all workers are busy, or the worker has died,
-- or the transaction that set the clock failed at the very end of its commit. In doubt all workers are woken; busy ones
-- ignore it.
--
-- 1 was set by a worker that understands numbers: it and its peers agree by the number on which of them looks for jobs.
-- 0 was set by a client that does not, such as a program in another language.
--
-- Runs with the rights of its owner: a role that may only enqueue cannot set the clock.
create or replace function treadle.wake_workers(p_due timestamptz, p_now boolean default false) returns void
language plpgsql
security definer
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_microseconds constant bigint := extract(epoch from v_now) * 1000000;
    v_last constant bigint := coalesce(pg_sequence_last_value('treadle.wake_clock'::regclass), 0);
    -- Both names are put together so that they do not change with the schema: the first stays the same in every schema, and
    -- the second has the number of the schema's table in it.
    c_notify constant text := 'treadle' || '.notify';
    c_requested constant text := 'treadle' || '.wake_requested_' || 'treadle.wake_requests'::regclass::oid;
    v_request tid;
    v_clock bigint;
    v_sent text;
begin
    -- No job, or one that is due later: the search that every worker makes at least once a minute finds it in time. Or the
    -- transaction must not contain a NOTIFY: set treadle.notify = off.
    if p_due is null or p_due > v_now + interval '2 minutes' or current_setting(c_notify, true) = 'off' then
        return;
    end if;

    if p_now then
        if v_last in (0, 1) or abs(v_microseconds - v_last) > 100000 then
            v_clock := setval('treadle.wake_clock', v_microseconds);
            if pg_notification_queue_usage() < 0.9 then -- as in send_notification(), which costs as much as all of this
                v_sent := pg_notify(
                    'treadle_' || 'treadle.jobs'::regclass::oid || '_work', case when v_last = 1 then 'jobs ' || v_microseconds else '' end
                );
            end if;
        end if;
        return;
    end if;

    -- Workers were notified less than 100 ms ago, and none has gone idle since: those with room are looking for jobs, and the
    -- others do so when they have room. But a transaction that began with an earlier statement may stay open until they are
    -- idle again; the messages of a single statement arrive within 0.25 ms.
    if v_microseconds - v_last between 0 and 100000
        and (v_microseconds - v_last > 20000 or statement_timestamp() - transaction_timestamp() < interval '0.25 milliseconds')
    then
        return;
    end if;

    if current_setting(c_requested, true) = 'on' then
        return;
    end if;

    perform set_config(c_requested, 'on', true);
    insert into treadle.wake_requests default values returning ctid into v_request;
    delete from treadle.wake_requests as request where request.ctid = v_request;
end
$$;
