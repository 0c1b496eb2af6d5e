-- Changes arguments of a job that does not run: those that p_arguments names get these values. With p_retry, a job that
-- has failed or was cancelled then runs again. Writes a row of the audit, which names the arguments. The job keeps its
-- key and its unique key. Returns what operate() calls the outcome:
--
--   select treadle.edit_job('0199b1c2-…', '{"user": 8}', p_retry => true);
--
-- Runs with the rights of its owner; its caller also needs the right to enqueue.
create or replace function treadle.edit_job(
    p_id uuid,
    p_arguments jsonb,
    p_retry boolean default false,
    p_actor text default null,
    p_reason text default null,
    p_act uuid default null,
    p_stored uuid[] default '{}' -- what of app.store the arguments use
) returns varchar
language plpgsql
security definer
set lock_timeout = '2s'
as $$
declare
    v_job treadle.jobs;
    v_edited boolean;
    v_retried boolean := false;
begin
    perform treadle.check_edit(p_arguments);
    if not treadle.begins_act(p_act) then
        return 'repeated';
    end if;
    begin
        select job.* into v_job from treadle.jobs as job where job.id = p_id for update;
    exception when lock_not_available then
        return 'busy';
    end;
    if v_job.id is null then
        return 'missing';
    end if;
    if v_job.status not in ('pending', 'failed', 'cancelled')
        or v_job.flags & (treadle.flag_workflow() | treadle.flag_signal()) <> 0
    then
        return 'unfit';
    end if;

    v_edited := v_job.data || p_arguments <> v_job.data;
    if v_edited then
        update treadle.jobs as job
        set data = job.data || p_arguments,
            partition = treadle.edited_partition(v_job, p_arguments)
        where job.id = p_id;
        perform treadle.use_stored(array_fill(p_id, array[cardinality(p_stored)]), p_stored);
    end if;
    if p_retry and v_job.status <> 'pending' then
        v_retried := treadle.retry_job(p_id);
    end if;
    if not v_edited and not v_retried then
        return 'unfit';
    end if;

    insert into treadle.audit (actor, action, job_id, job_type, queue, reason, act, details)
    select
        coalesce(p_actor, session_user), 'edit', p_id, v_job.job_type, v_job.queue, p_reason, p_act,
        jsonb_build_object(
            'status', v_job.status,
            'arguments', coalesce(jsonb_agg(given.name) filter (where given.value is distinct from v_job.data -> given.name), '[]'),
            'retried', v_retried
        )
    from jsonb_each(p_arguments) as given (name, value);
    return 'done';
end
$$;
