-- Wakes an idle worker, at commit, because a job can be claimed now or within seconds. It is only a hint: idle workers also
-- poll, every second or, asleep, every minute.
--
-- Transactions that send a NOTIFY commit one after the other: with 48 clients, enqueueing drops to a quarter of the speed
-- if each of them sends one. So a notification is sent only if a worker has gone idle since the last one. Whether that is
-- so is decided at commit, by notify_at_commit(): a transaction that stays open, or rolls back, keeps no other one from
-- notifying. This function only decides whether there can be something to decide; most enqueues on a busy queue end here.
create or replace function treadle.wake_workers(p_due timestamptz) returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_age bigint;
    -- Both names are put together so that they do not change with the schema: the first stays the same in every schema, and
    -- the second has the number of the schema's table in it.
    c_notify constant text := 'treadle' || '.notify';
    c_requested constant text := 'treadle' || '.wake_requested_' || 'treadle.wake_requests'::regclass::oid;
    v_request tid;
begin
    -- No job, or one that is due later: the search that every worker makes at least once a minute finds it in time.
    if p_due is null or p_due > v_now + interval '2 minutes' then
        return;
    end if;

    v_age := extract(epoch from v_now) * 1000000 - coalesce(pg_sequence_last_value('treadle.wake_clock'::regclass), 0);

    -- Workers were notified less than 100 ms ago, and none has gone idle since: those with room are looking for jobs, and the
    -- others do so when they have room. (See notify_at_commit() for the 100 ms.) But a transaction that began with an earlier
    -- statement may stay open until they are idle again; the messages of a single statement arrive within 0.25 ms.
    if v_age between 0 and 100000
        and (v_age > 20000 or statement_timestamp() - transaction_timestamp() < interval '0.25 milliseconds')
    then
        return;
    end if;

    -- For transactions that must not contain a NOTIFY: set treadle.notify = off.
    if current_setting(c_requested, true) = 'on' or current_setting(c_notify, true) = 'off' then
        return;
    end if;

    perform set_config(c_requested, 'on', true);
    insert into treadle.wake_requests default values returning ctid into v_request;
    delete from treadle.wake_requests as request where request.ctid = v_request;
end
$$;

comment on function treadle.wake_workers(timestamptz)
    is 'Notifies an idle worker, when this transaction commits, of a job that is due at p_due.';
