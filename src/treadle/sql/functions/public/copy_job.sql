-- Enqueues a copy of a job, of any status: a new job with its type, queue, priority, key, number of attempts, headers,
-- time limits and arguments, except for those that p_arguments names. It is no part of a workflow, waits for no other
-- job, and is not unique. Writes a row of the audit. The outcome is done, missing, unfit (it is a workflow, or waits for
-- its arguments) or repeated:
--
--   select copy_id from treadle.copy_job('0199b1c2-…', '{"user": 8}');
--
-- Runs with the rights of its owner; its caller also needs the right to enqueue.
create or replace function treadle.copy_job(
    p_id uuid,
    p_arguments jsonb default '{}',
    p_actor text default null,
    p_reason text default null,
    p_act uuid default null,
    p_stored uuid[] default '{}', -- what of app.store the arguments use
    out copy_id uuid,
    out outcome varchar
)
language plpgsql
security definer
as $$
declare
    v_job treadle.jobs;
    v_stored uuid[];
begin
    perform treadle.check_edit(p_arguments);
    select job.* into v_job from treadle.jobs as job where job.id = p_id;
    outcome := case
        when not treadle.begins_act(p_act) then 'repeated'
        when v_job.id is null then 'missing'
        when v_job.flags & (treadle.flag_workflow() | treadle.flag_signal()) <> 0 then 'unfit'
        when v_job.flags & treadle.flag_inputs() <> 0 and v_job.holds & treadle.blocked_by_jobs() <> 0 then 'unfit'
        else 'done'
    end;
    if outcome <> 'done' then
        return;
    end if;

    insert into treadle.jobs (job_type, priority, data, queue, key, max_attempts, partition, weight, headers, timeout)
    values (
        v_job.job_type, v_job.priority, v_job.data || p_arguments, v_job.queue, v_job.key, v_job.max_attempts,
        treadle.edited_partition(v_job, p_arguments), v_job.weight, v_job.headers, v_job.timeout
    )
    returning id into copy_id;

    v_stored := p_stored || array(select use.stored_id from treadle.stored_uses as use where use.job_id = p_id);
    perform treadle.use_stored(array_fill(copy_id, array[cardinality(v_stored)]), v_stored);

    insert into treadle.audit (actor, action, job_id, job_type, queue, reason, act, details)
    values (
        coalesce(p_actor, session_user), 'copy', p_id, v_job.job_type, v_job.queue, p_reason, p_act,
        jsonb_build_object(
            'status', v_job.status, 'copy', copy_id, 'arguments', array(select jsonb_object_keys(p_arguments))
        )
    );
end
$$;
