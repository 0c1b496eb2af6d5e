-- Sends a signal to a workflow: the step that waits for it completes, with the value as its result. A signal may come
-- before its step begins to wait. Only the first one counts. p_id is the workflow, or the step itself. It is written to
-- the audit. Returns taken; too late, if the step has got a signal, or has ended in another way; or unknown, if there
-- is no such step.
create or replace function treadle.send_signal(
    p_id uuid,
    p_name varchar,
    p_value jsonb default null,
    p_actor text default null
) returns text
language plpgsql
security definer
set treadle.plan = nested_loops
as $$
declare
    v_job record;
begin
    select job.id, job.job_type, job.queue, job.status, job.holds, job.checkpoint, job.expires_at
    into v_job
    from treadle.jobs as job
    where job.id = (
            -- Also of workflows that are part of it.
            with recursive part as (
                select job.id, job.flags
                from treadle.jobs as job
                where job.id = p_id
                union all
                select job.id, job.flags
                from part
                join treadle.dependencies as edge on edge.job_id = part.id and edge.needs = 'member'
                join treadle.jobs as job on job.id = edge.after_id
                where part.flags & treadle.flag_workflow() <> 0
                  and job.flags & (treadle.flag_workflow() | treadle.flag_signal()) <> 0
            )
            select part.id
            from part
            join treadle.jobs as job on job.id = part.id
            where part.flags & treadle.flag_signal() <> 0
              and job.data ->> 'signal' = p_name
            order by part.id
            limit 1
        )
    for no key update;

    if not found then
        return 'unknown';
    elsif v_job.status <> 'pending' or v_job.checkpoint is not null then
        return 'too late';
    elsif v_job.expires_at <= clock_timestamp() then
        perform treadle.cancel_expired(array[v_job.id]);
        return 'too late';
    end if;

    if v_job.holds & treadle.blocked_by_signal() <> 0 then
        perform treadle.end_signal(v_job.id, p_value);
    else
        update treadle.jobs as job
        set checkpoint = coalesce(p_value, 'null')
        where job.id = v_job.id;
    end if;
    insert into treadle.audit (actor, action, job_id, job_type, queue, details)
    values (
        coalesce(p_actor, session_user), 'signal', v_job.id, v_job.job_type, v_job.queue,
        jsonb_build_object('signal', p_name)
    );
    return 'taken';
end
$$;
