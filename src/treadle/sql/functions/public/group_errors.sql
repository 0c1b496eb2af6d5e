-- Counts the attempts that failed since the last call by job type, exception and message, in treadle.error_groups.
-- Returns how many, and whether there are more. Workers call it every few seconds: the cost is that of the failures,
-- and a job that completes costs nothing.
--
-- It reads idx_errors_failed_at up to p_lag before now. An attempt whose transaction is committed later than that is
-- found by a second look, p_late after it failed. What is counted is what could be inserted into grouped_errors: each
-- row of errors once.
--
-- At most p_limit attempts are read at a time. After a call less than p_pause ago there is nothing to do, so a hundred
-- workers cost as much as one.
create or replace function treadle.group_errors(
    p_lag interval default '3 seconds',
    p_limit int default 2000,
    p_late interval default '10 minutes',
    p_pause interval default '2 seconds'
) returns table (counted int, more boolean)
language plpgsql
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_to constant timestamptz := v_now - p_lag;
    v_meter treadle.error_meter;
    v_reached timestamptz;
    v_late_to timestamptz;
    v_late timestamptz;
    v_found_late int;
begin
    counted := 0;
    more := false;
    -- One call at a time, until it commits: another would wait for its rows.
    if not pg_try_advisory_xact_lock(hashtext('treadle group errors'), hashoid('treadle.error_meter'::regclass)) then
        return next;
        return;
    end if;

    select meter.* into v_meter from treadle.error_meter as meter;
    if not found then
        insert into treadle.error_meter (reached, late_reached)
        values (v_now - interval '1 day', v_now - p_late)
        returning * into v_meter;
    end if;
    if v_meter.reached > v_now then
        -- The clock was set back: start again. What was counted is not counted twice.
        v_meter.reached := v_to;
        v_meter.late_reached := v_to - p_late;
    elsif v_to <= v_meter.reached + p_pause then
        return next;
        return;
    end if;
    v_meter.reached := greatest(v_meter.reached, v_now - interval '1 day');
    v_meter.late_reached := greatest(v_meter.late_reached, v_now - interval '1 day');

    select step.counted, step.reached
    into counted, v_reached
    from treadle.group_errors_between(v_meter.reached, v_to, p_limit) as step;

    v_late_to := least(v_now - p_late, v_reached);
    v_late := v_meter.late_reached;
    if v_late < v_late_to then
        select step.counted, step.reached
        into v_found_late, v_late
        from treadle.group_errors_between(v_late, v_late_to, p_limit) as step;
        counted := counted + v_found_late;
    end if;

    update treadle.error_meter set reached = v_reached, late_reached = v_late;
    more := v_reached < v_to or v_late < v_late_to;
    return next;
end
$$;
