-- Changes a schedule for an operator: pause, resume, run (enqueue a job now, besides its times) or delete. Returns
-- done; unchanged, if it is paused already, or not paused, or its jobs are unique and there is one; missing; or
-- declared: remove it from the code, or pause it.
-- Runs with the rights of its owner: a schedule cannot be changed without an audit row.
create or replace function treadle.operate_schedule(
    p_action varchar,
    p_name varchar,
    p_actor text default null,
    p_reason text default null
) returns varchar
language plpgsql
security definer
as $$
declare
    v_known treadle.schedules;
begin
    if p_action not in ('pause', 'resume', 'run', 'delete') or p_action is null then
        raise exception 'action must be pause, resume, run or delete, got %', coalesce(p_action, 'null')
            using errcode = 'invalid_parameter_value';
    end if;

    select known.* into v_known
    from treadle.schedules as known
    where known.name = p_name
    for update;
    if not found then
        return 'missing';
    end if;

    case p_action
        when 'pause' then
            update treadle.schedules as known
            set paused_at = clock_timestamp()
            where known.name = p_name
              and known.paused_at is null;
        when 'resume' then
            -- The times in between were not missed: it goes on with the next one.
            update treadle.schedules as known
            set paused_at = null,
                next_at = null,
                changed_at = clock_timestamp()
            where known.name = p_name
              and known.paused_at is not null;
        when 'run' then
            -- Somebody wants it now, whether or not the last one has finished; but one after the other if they must be.
            v_known.overlap := case when v_known.overlap = 'wait' then 'wait' else 'allow' end;
            v_known.jitter := '0';
            if treadle.enqueue_schedule(v_known, array[clock_timestamp()], '{}') = 0 then
                return 'unchanged';
            end if;
        when 'delete' then
            if v_known.digest is not null and v_known.retired_at is null then
                return 'declared';
            end if;
            delete from treadle.schedules as known
            where known.name = p_name;
    end case;
    if not found and p_action <> 'run' then
        return 'unchanged';
    end if;

    insert into treadle.audit (actor, action, job_type, reason, details)
    values (
        coalesce(p_actor, session_user), p_action || ' schedule', v_known.job_type, p_reason,
        jsonb_build_object('schedule', p_name)
    );
    perform treadle.send_notification('work', 'schedules');
    return 'done';
end
$$;
