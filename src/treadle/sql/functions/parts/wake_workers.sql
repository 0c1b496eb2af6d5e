-- Sends a NOTIFY to idle workers, at commit, because a job can be claimed now or within seconds. It is only a hint: idle
-- workers also poll every second.
--
-- Transactions that send a NOTIFY commit one after the other: with 48 clients, enqueueing drops to a quarter of the speed
-- if each of them sends one. So a notification is sent only if a worker has gone idle since the last one, or if the last
-- one is older than 20 ms (the transaction that sent it may have rolled back, or may not have committed yet).
create or replace function treadle.wake_workers(p_due timestamptz) returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_microseconds constant bigint := extract(epoch from v_now) * 1000000;
    v_last bigint;
begin
    -- No job, or one that is due later: the search that every worker makes each second finds it in time.
    if p_due is null or p_due > v_now + interval '10 seconds' then
        return;
    end if;

    select clock.last_value into v_last from treadle.wake_clock as clock;

    if v_last = 0 or abs(v_microseconds - v_last) > 20000 then
        -- For transactions that must not contain a NOTIFY: set treadle.notify = off. The name is put together so that it
        -- stays the same in every schema.
        if current_setting('treadle' || '.notify', true) is distinct from 'off' then
            perform setval('treadle.wake_clock', v_microseconds);
            perform pg_notify(treadle.channel('work'), '');
        end if;
    end if;
end
$$;

comment on function treadle.wake_workers(timestamptz)
    is 'Notifies idle workers of a job that is due at p_due; at most one notification every 20 ms.';
