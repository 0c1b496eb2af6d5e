-- Changes jobs for an operator: retry, cancel, delete, run_now or priority. Each change writes a row of the audit in
-- the same transaction. Returns the outcome for each job, and the status that it had.
--
-- The outcomes:
--
--   done      changed
--   unfit     its status does not allow the operation, or nothing would change
--   busy      another transaction has locked its row; with several jobs, this function does not wait for locks
--   missing   there is no such job
--   repeated  p_act was begun before, and p_continues is false: nothing was changed
--
-- The rows of one act have the same p_act, also those of several calls: the first call begins it, the others continue
-- it. So a form or a request that is sent twice is carried out once.
--
-- Runs with the rights of its owner: the operator's role can change jobs in no other way, so every change is in the
-- audit.
create or replace function treadle.operate(
    p_action varchar,
    p_ids uuid[],
    p_actor text default null,
    p_reason text default null,
    p_priority int default null,
    p_act uuid default null,
    p_continues boolean default false
) returns table (id uuid, outcome varchar, status varchar)
language plpgsql
security definer
set lock_timeout = '2s'
as $$
declare
    v_wait constant boolean := cardinality(p_ids) = 1;
    v_act constant uuid := coalesce(p_act, treadle.new_id());
    v_begins boolean;
    v_id uuid;
    v_job record;
    v_details jsonb;
    v_done boolean;
begin
    if p_action not in ('retry', 'cancel', 'delete', 'run_now', 'priority') or p_action is null then
        raise exception 'action must be retry, cancel, delete, run_now or priority, got %', coalesce(p_action, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if p_action = 'priority' and p_priority is null then
        raise exception 'the action priority requires p_priority'
            using errcode = 'invalid_parameter_value';
    end if;

    v_begins := treadle.begins_act(p_act, p_continues);
    if not v_begins and not p_continues then
        return query
        select given.id, 'repeated'::varchar, null::varchar
        from unnest(p_ids) as given (id);
        return;
    end if;

    -- In the order of ids, as in every statement that locks several jobs.
    for v_id in select distinct given.id from unnest(p_ids) as given (id) order by given.id loop
        if v_wait then
            begin
                perform from treadle.jobs as job where job.id = v_id for update;
            exception when lock_not_available then
                null;
            end;
        end if;
        -- Several, of which there may be millions, without an exception block: each would take a transaction id.
        select job.status, job.job_type, job.queue, job.priority, job.run_at, job.flags
        into v_job
        from treadle.jobs as job
        where job.id = v_id
        for update skip locked;
        if not found then
            id := v_id;
            select job.status into status from treadle.jobs as job where job.id = v_id;
            outcome := case when found then 'busy' else 'missing' end;
            return next;
            continue;
        end if;

        v_details := jsonb_build_object('status', v_job.status);
        case p_action
            when 'retry' then
                v_done := case
                    when v_job.flags & treadle.flag_workflow() <> 0 and treadle.retry_workflow(v_id) > 0 then true
                    else treadle.retry_job(v_id)
                end;
            when 'cancel' then
                v_done := treadle.cancel_job(v_id, p_reason);
            when 'delete' then
                -- A claimed job may be running: it has to be cancelled first.
                delete from treadle.jobs as job
                where job.id = v_id
                  and job.status not in ('claimed', 'running');
                v_done := found;
            when 'run_now' then
                update treadle.jobs as job
                set run_at = clock_timestamp()
                where job.id = v_id
                  and job.status = 'pending'
                  and job.run_at > clock_timestamp();
                v_done := found;
                v_details := v_details || jsonb_build_object('run_at', v_job.run_at);
            when 'priority' then
                -- The new priority of a claimed job applies when it is retried.
                update treadle.jobs as job
                set priority = p_priority
                where job.id = v_id
                  and job.priority <> p_priority
                  and job.status in ('pending', 'claimed', 'running');
                v_done := found;
                v_details := v_details || jsonb_build_object('priority', v_job.priority, 'to', p_priority);
        end case;

        if v_done then
            insert into treadle.audit (actor, action, job_id, job_type, queue, reason, details, act, begins)
            values (
                coalesce(p_actor, session_user), p_action, v_id, v_job.job_type, v_job.queue, p_reason, v_details,
                v_act, v_begins
            );
            v_begins := false;
        end if;
        id := v_id;
        status := v_job.status;
        outcome := case when v_done then 'done' else 'unfit' end;
        return next;
    end loop;
end
$$;
