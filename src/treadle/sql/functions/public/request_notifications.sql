-- Starts notifications on channel(p_kind) for this long, at most 5 minutes; call it again to continue. ends: the ids of
-- jobs that finish. news: the ids of jobs with new events or progress. Runs with the rights of its owner: a viewer may
-- not set the sequences directly.
create or replace function treadle.request_notifications(p_kind text, p_for interval default '30 seconds') returns void
language plpgsql
security definer
as $$
declare
    -- Limited, because every batch of jobs then sends a NOTIFY, and any viewer may request it.
    c_most constant interval := '5 minutes';
    v_now constant timestamptz := clock_timestamp();
    v_until constant bigint := extract(epoch from v_now + least(p_for, c_most)) * 1000000;
    v_most constant bigint := extract(epoch from v_now + c_most) * 1000000;
    v_last bigint;
begin
    case p_kind
        when 'ends' then select awaited.last_value into v_last from treadle.awaited as awaited;
        when 'news' then select watched.last_value into v_last from treadle.watched as watched;
        else
            raise exception 'kind must be ends or news, got %', coalesce(p_kind, 'null')
                using errcode = 'invalid_parameter_value';
    end case;

    -- A request never shortens that of another session. (One that ends too late was made before the clock was set
    -- back.)
    if v_until > v_last or v_last > v_most then
        perform setval(case p_kind when 'ends' then 'treadle.awaited' else 'treadle.watched' end, v_until);
    end if;
end
$$;
