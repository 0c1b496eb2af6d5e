-- Records the progress (0 to 100) and the stage of a running job; null leaves a value as it is. Returns false if the
-- claim is lost.
create or replace function treadle.report_progress(
    p_id uuid,
    p_progress int,
    p_stage varchar default null,
    p_lease bigint default null,
    p_worker_id varchar default null
) returns boolean
language plpgsql
as $$
begin
    if p_progress not between 0 and 100 then
        raise exception 'progress must be from 0 to 100, got %', p_progress
            using errcode = 'invalid_parameter_value';
    end if;

    -- A report also counts as a heartbeat: a job that reports is not stale, however long it runs.
    update treadle.jobs as job
    set progress = coalesce(p_progress, job.progress),
        current_stage = coalesce(p_stage, job.current_stage),
        seen_at = clock_timestamp()
    where job.id = p_id
      and job.status in ('claimed', 'running')
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id);
    return found;
end
$$;
