-- Cancels an unfinished job; a worker that has claimed it loses the claim. Of a workflow, all of its jobs are
-- cancelled. Returns false if it has finished already.
create or replace function treadle.cancel_job(
    p_id uuid,
    p_reason text default null,
    p_lease bigint default null,
    p_worker_id varchar default null
) returns boolean
language plpgsql
as $$
declare
    v_worker_id varchar;
    v_flags smallint;
begin
    update treadle.jobs as job
    set status = 'cancelled',
        finished_at = clock_timestamp(),
        last_error = coalesce(p_reason, job.last_error)
    where job.id = p_id
      and (job.status in ('claimed', 'running') or job.status = 'pending' and p_lease is null)
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id)
    returning job.worker_id, job.flags
    into v_worker_id, v_flags;
    if not found then
        return false;
    end if;

    -- The worker is notified at once. If the notification is lost, it notices within a second.
    if v_worker_id is not null then
        perform treadle.send_notification('work', 'cancelled ' || p_id);
    end if;
    perform treadle.announce(array[p_id]);

    -- A workflow is cancelled before its jobs: otherwise it would fail because of them.
    if v_flags & treadle.flag_workflow() <> 0 then
        update treadle.workflows as workflow
        set is_open = false
        where workflow.id = p_id
          and workflow.is_open
          and workflow.plan is null;
        perform treadle.cancel_members(p_id, p_reason, 10000);
    end if;
    return true;
end
$$;
