create or replace function treadle.fail_job(
    p_id uuid,
    p_error text,
    p_delay interval default null,
    p_final boolean default false,
    p_lease bigint default null,
    p_worker_id varchar default null,
    p_traceback text default null
) returns boolean
language plpgsql
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_attempt int;
    v_lease bigint;
    v_started_at timestamptz;
begin
    update treadle.jobs as job
    set status = case when job.attempts < job.max_attempts and not p_final then 'pending' else 'failed' end,
        finished_at = case when job.attempts < job.max_attempts and not p_final then null else v_now end,
        run_at = case
            when job.attempts < job.max_attempts and not p_final
                then v_now + coalesce(p_delay, treadle.retry_delay(job.attempts))
            else job.run_at
        end,
        last_error = p_error,
        worker_id = null,
        claimed_at = null
    where job.id = p_id
      and (job.status in ('claimed', 'running') or job.status = 'pending' and p_lease is null)
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id)
    returning job.attempts, job.lease, job.started_at
    into v_attempt, v_lease, v_started_at;
    if not found then
        return false;
    end if;

    insert into treadle.errors (job_id, attempt, failed_at, worker_id, error, traceback, lease, started_at)
    values (
        p_id, v_attempt, v_now, p_worker_id, coalesce(p_error, 'no reason was given'), p_traceback, v_lease,
        v_started_at
    );
    perform treadle.announce(array[p_id]);
    return true;
end
$$;

comment on function treadle.fail_job(uuid, text, interval, boolean, bigint, varchar, text)
    is 'An attempt failed: the job is tried again after p_delay (by default a growing one), or has failed if that was its last attempt or p_final is true. False: the lease is lost, or the job has ended already.';
