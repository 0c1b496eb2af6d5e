-- What an operator does to jobs: retry, cancel, delete, run_now or priority; each change with its line in the audit, in
-- one transaction. Returns what came of each:
--
--   done      changed
--   unfit     its status does not allow it, or nothing would change
--   busy      somebody holds its row; of several, none is waited for
--   missing   there is no such job
--
-- Run as its owner: this is all that the operator's role can do to a job, so that there is no way around the audit.
create or replace function treadle.operate(
    p_action varchar,
    p_ids uuid[],
    p_actor text default null,
    p_reason text default null,
    p_priority int default null
) returns table (id uuid, outcome varchar, status varchar)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set lock_timeout = '2s'
as $$
declare
    v_wait constant boolean := cardinality(p_ids) = 1;
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
        raise exception 'the new priority must be given'
            using errcode = 'invalid_parameter_value';
    end if;

    -- In the order of ids, as whoever locks several jobs.
    for v_id in select distinct asked.id from unnest(p_ids) as asked (id) order by asked.id loop
        if v_wait then
            begin
                select job.status, job.job_type, job.queue, job.priority, job.run_at
                into v_job
                from treadle.jobs as job
                where job.id = v_id
                for update;
                v_done := found;
            exception when lock_not_available then
                v_done := false;
            end;
        else
            -- Without a block of its own: each would take a transaction number, and there may be millions.
            select job.status, job.job_type, job.queue, job.priority, job.run_at
            into v_job
            from treadle.jobs as job
            where job.id = v_id
            for update skip locked;
            v_done := found;
        end if;
        if not v_done then
            id := v_id;
            select job.status into status from treadle.jobs as job where job.id = v_id;
            outcome := case when found then 'busy' else 'missing' end;
            return next;
            continue;
        end if;

        v_details := jsonb_build_object('status', v_job.status);
        case p_action
            when 'retry' then
                v_done := treadle.retry_job(v_id);
            when 'cancel' then
                v_done := treadle.cancel_job(v_id, p_reason);
            when 'delete' then
                -- One that is held has a handler at work: it is cancelled first.
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
                -- Of one that is held it counts if it is tried again.
                update treadle.jobs as job
                set priority = p_priority
                where job.id = v_id
                  and job.priority <> p_priority
                  and job.status in ('pending', 'claimed', 'running');
                v_done := found;
                v_details := v_details || jsonb_build_object('priority', v_job.priority, 'to', p_priority);
        end case;

        if v_done then
            insert into treadle.audit (actor, action, job_id, job_type, queue, reason, details)
            values (coalesce(p_actor, session_user), p_action, v_id, v_job.job_type, v_job.queue, p_reason, v_details);
        end if;
        id := v_id;
        status := v_job.status;
        outcome := case when v_done then 'done' else 'unfit' end;
        return next;
    end loop;
end
$$;

comment on function treadle.operate(varchar, uuid[], text, text, int)
    is 'What an operator does to jobs (retry, cancel, delete, run_now, priority), with a line in the audit for each; returns what came of each (done, unfit, busy, missing) and the status it had.';

revoke all on function treadle.operate(varchar, uuid[], text, text, int) from public;
