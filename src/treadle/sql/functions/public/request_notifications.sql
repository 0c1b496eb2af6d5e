-- Runs with the rights of its owner: a viewer may not set the sequences directly.
create or replace function treadle.request_notifications(p_kind text, p_for interval default '30 seconds') returns void
language plpgsql
security definer
as $$
declare
    -- Limited, because every batch of jobs then sends a NOTIFY, and any viewer may request it.
    v_until constant bigint := extract(epoch from clock_timestamp() + least(p_for, '5 minutes')) * 1000000;
begin
    case p_kind
        when 'ends' then perform setval('treadle.awaited', v_until);
        when 'news' then perform setval('treadle.watched', v_until);
        else
            raise exception 'kind must be ends or news, got %', coalesce(p_kind, 'null')
                using errcode = 'invalid_parameter_value';
    end case;
end
$$;

comment on function treadle.request_notifications(text, interval)
    is 'Starts notifications on channel(p_kind) for this long, at most 5 minutes; call it again to continue. ends: the ids of jobs that finish. news: the ids of jobs with new events or progress.';

revoke all on function treadle.request_notifications(text, interval) from public;
