-- Undoes set_limit(): the limit is as the code declares it, or gone if no code does. Returns false if nothing was
-- changed. Runs with the rights of its owner, as set_limit().
create or replace function treadle.reset_limit(
    p_name varchar,
    p_key varchar default null,
    p_actor text default null,
    p_reason text default null
) returns boolean
language plpgsql
security definer
as $$
declare
    v_changed boolean;
begin
    if p_key is not null then
        update treadle.limit_keys as known
        set amount = null,
            changed_by = null,
            changed_at = null
        where known.name = p_name
          and known.key = p_key
          and known.changed_by is not null;
        v_changed := found;
        if not v_changed then
            delete from treadle.fair_weights as known
            using treadle.limits_and_settings() as setting
            where setting.name = p_name
              and setting.kind = 'fairness'
              and known.job_type = setting.setting_of
              and known.key = p_key;
            v_changed := found;
        end if;
    else
        update treadle.limits as known
        set kind = known.declared ->> 'kind',
            amount = (known.declared ->> 'amount')::int,
            period = (known.declared ->> 'seconds')::double precision * interval '1 second',
            burst = (known.declared ->> 'burst')::int,
            changed_by = null,
            changed_at = null
        where known.name = p_name
          and known.changed_by is not null
          and known.declared is not null;
        v_changed := found;
        if not v_changed then
            delete from treadle.limits as known
            where known.name = p_name
              and known.declared is null;
            v_changed := found;
            perform treadle.forget_limit(p_name) where v_changed;
        end if;
        if not v_changed then
            update treadle.type_settings as setting
            set aging_share = (setting.declared ->> 'amount')::int,
                aging_after = (setting.declared ->> 'seconds')::double precision * interval '1 second',
                changed_by = null,
                changed_at = null
            where p_name = 'aging'
              and setting.changed_by is not null;
            v_changed := found;
        end if;
    end if;
    if not v_changed then
        return false;
    end if;

    insert into treadle.audit (actor, action, reason)
    values (coalesce(p_actor, session_user), 'reset limit', concat_ws(': ', p_name, p_key, p_reason));
    perform treadle.reopen_limit(p_name);
    return true;
end
$$;
