-- Changes a limit at run time (p_amount null: no limit; 0: nothing runs), for one value of its "per" (p_key) or for
-- all; with a job type or queue, adds it. Also the weight of a value where values take turns, and aging. The values
-- stay, whatever the code declares, until reset_limit(). Returns false if there is no such limit. Runs with the rights
-- of its owner: limits cannot be changed without an audit row.
create or replace function treadle.set_limit(
    p_name varchar,
    p_amount int,
    p_period interval default null,
    p_burst int default null,
    p_key varchar default null,
    p_per varchar default null,
    p_job_type varchar default null,
    p_queue varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language plpgsql
security definer
as $$
declare
    v_actor constant text := coalesce(p_actor, session_user);
    v_now constant timestamptz := clock_timestamp();
begin
    if p_key is not null and p_amount is null then
        raise exception 'with p_key, p_amount must be a number; reset_limit() undoes what was set for a key'
            using errcode = 'invalid_parameter_value';
    end if;
    if p_amount < 0 or p_burst < 1 or p_period <= interval '0' then
        raise exception 'the amount must be 0 or more, the burst 1 or more, and the period longer than 0'
            using errcode = 'invalid_parameter_value';
    end if;

    if p_key is not null then
        insert into treadle.limit_keys as known (name, key, amount, changed_by, changed_at)
        select rule.name, p_key, p_amount, v_actor, v_now
        from treadle.limits as rule
        where rule.name = p_name
        on conflict (name, key) do update
        set amount = excluded.amount,
            changed_by = excluded.changed_by,
            changed_at = excluded.changed_at;
        if not found then
            insert into treadle.fair_weights as known (job_type, key, weight, changed_by, changed_at)
            select setting.setting_of, p_key, p_amount, v_actor, v_now
            from treadle.limits_and_settings() as setting
            where setting.name = p_name
              and setting.kind = 'fairness'
              and setting.per <> ''
            on conflict (job_type, key) do update
            set weight = excluded.weight,
                changed_by = excluded.changed_by,
                changed_at = excluded.changed_at;
        end if;
    elsif p_job_type is null and p_queue is null then
        update treadle.limits as known
        set amount = p_amount,
            period = case when known.kind = 'rate' then coalesce(p_period, known.period) end,
            burst = case when known.kind = 'rate' then coalesce(p_burst, known.burst) end,
            changed_by = v_actor,
            changed_at = v_now
        where known.name = p_name;
        if not found then
            update treadle.type_settings as setting
            set aging_share = p_amount,
                aging_after = coalesce(p_period, setting.aging_after),
                changed_by = v_actor,
                changed_at = v_now
            where p_name = 'aging'
              and setting.aging_after is not null;
        end if;
    else
        insert into treadle.limits as known (name, kind, per, amount, period, burst, changed_by, changed_at)
        values (
            p_name, case when p_period is null then 'concurrency' else 'rate' end, coalesce(p_per, ''), p_amount,
            p_period,
            case when p_period is not null then p_burst end, v_actor, v_now
        )
        on conflict (name) do update
        set kind = case when known.kind = 'pending' then known.kind else excluded.kind end,
            amount = excluded.amount,
            period = case when known.kind <> 'pending' then excluded.period end,
            burst = case when known.kind <> 'pending' then excluded.burst end,
            changed_by = excluded.changed_by,
            changed_at = excluded.changed_at;

        insert into treadle.limit_targets (job_type, queue, name)
        values (coalesce(p_job_type, ''), coalesce(p_queue, ''), p_name)
        on conflict do nothing;

        if coalesce(p_per, '') <> '' and p_job_type is not null then
            perform treadle.move_to_partitions(p_job_type);
        end if;
    end if;
    if not found and p_job_type is null and p_queue is null then
        return false;
    end if;

    insert into treadle.audit (actor, action, job_type, queue, reason)
    values (
        v_actor, 'limit', p_job_type, p_queue, concat_ws(': ', p_name, p_key, coalesce(p_amount::text, 'none'), p_reason)
    );
    perform treadle.reopen_limit(p_name);
    return true;
end
$$;
