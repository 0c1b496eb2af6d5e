-- Changes how many jobs a live worker runs at once, until the worker ends. Null: as many as it was started with; 0: it
-- claims nothing. Returns done; unchanged; missing, if there is no live worker of this name; or unsupported, if it
-- registered no number. Runs with the rights of its owner: the number cannot be changed without an audit row.
create or replace function treadle.set_concurrency(
    p_worker_id varchar,
    p_concurrency int,
    p_actor text default null,
    p_reason text default null
) returns varchar
language plpgsql
security definer
as $$
declare
    v_actor constant text := coalesce(p_actor, session_user);
    v_started_with int;
    v_before int;
begin
    if p_concurrency not between 0 and 10000 then
        raise exception 'the concurrency must be from 0 to 10000, or null for what the worker was started with, got %',
            p_concurrency
            using errcode = 'invalid_parameter_value';
    end if;

    -- Without a lock: the worker renews its lease in this row.
    select worker.concurrency
    into v_started_with
    from treadle.workers as worker
    where worker.worker_id = p_worker_id
      and worker.lost_at is null
      and worker.seen_at >= clock_timestamp() - worker.lease;
    if not found then
        return 'missing';
    end if;
    if v_started_with is null then
        return 'unsupported';
    end if;

    -- Of workers that are gone.
    delete from treadle.worker_concurrency as changed
    where changed.worker_id in (
        select gone.worker_id
        from treadle.worker_concurrency as gone
        where not exists (select from treadle.workers as worker where worker.worker_id = gone.worker_id)
        for update skip locked
    );

    select changed.concurrency
    into v_before
    from treadle.worker_concurrency as changed
    where changed.worker_id = p_worker_id
    for update;
    if v_before is not distinct from p_concurrency or v_before is null and v_started_with = p_concurrency then
        return 'unchanged';
    end if;

    if p_concurrency is null then
        delete from treadle.worker_concurrency as changed
        where changed.worker_id = p_worker_id;
    else
        insert into treadle.worker_concurrency as changed (worker_id, concurrency, changed_by, changed_at)
        values (p_worker_id, p_concurrency, v_actor, clock_timestamp())
        on conflict (worker_id) do update
        set concurrency = excluded.concurrency,
            changed_by = excluded.changed_by,
            changed_at = excluded.changed_at;
    end if;

    insert into treadle.audit (actor, action, reason, details)
    values (
        v_actor,
        case when p_concurrency is null then 'reset concurrency' else 'concurrency' end,
        p_reason,
        jsonb_build_object(
            'worker', p_worker_id,
            'before', coalesce(v_before, v_started_with),
            'concurrency', coalesce(p_concurrency, v_started_with)
        )
    );
    perform treadle.send_notification('work', 'concurrency ' || p_worker_id);
    return 'done';
end
$$;
