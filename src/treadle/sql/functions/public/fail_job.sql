-- Records a failed attempt: the job is retried after p_delay (default: exponential), or fails if that was its last
-- attempt or p_final is true. Returns false if the claim is lost or the job has finished already. Without a lease
-- number any unfinished job can be failed, also one that is pending. Ends the attempt as settle_jobs() does.
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
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_job record;
begin
    select
        job.lease,
        case when job.status <> 'pending' then job.worker_id end as worker_id,
        treadle.has_attempts_left(job.attempts, job.max_attempts) and not p_final as again
    into v_job
    from treadle.jobs as job
    where job.id = p_id
      and (job.status in ('claimed', 'running') or job.status = 'pending' and p_lease is null)
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id)
    for no key update;
    if not found then
        return false;
    end if;

    perform treadle.settle_jobs(
        v_job.worker_id,
        array[p_id],
        array[v_job.lease],
        array[case when v_job.again then 'retry' else 'failed' end]::varchar[],
        array[coalesce(p_error, 'no reason was given')],
        array[p_traceback],
        array[case when v_job.again then extract(epoch from v_now + p_delay - v_now) end]::double precision[]
    );
    return true;
end
$$;
