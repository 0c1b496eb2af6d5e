-- Completes a job, with its result. Returns false if the claim is lost or the job has finished already. p_seconds is
-- how long ago it started: a short job completes before it was ever reported as running.
create or replace function treadle.complete_job(
    p_id uuid,
    p_result jsonb default null,
    p_lease bigint default null,
    p_worker_id varchar default null,
    p_seconds double precision default null
) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    update treadle.jobs as job
    set status = 'completed',
        progress = 100,
        started_at = coalesce(job.started_at, v_now - p_seconds * interval '1 second'),
        completed_at = v_now,
        finished_at = v_now,
        result = p_result
    where job.id = p_id
      and (job.status in ('claimed', 'running') or job.status = 'pending' and p_lease is null)
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id);
    if not found then
        return false;
    end if;
    if treadle.is_requested('treadle.awaited') then
        perform treadle.announce(array[p_id]);
    end if;
    return true;
end
$$;
