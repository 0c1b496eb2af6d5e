create or replace function treadle.release_job(
    p_id uuid,
    p_delay interval default null,
    p_lease bigint default null,
    p_worker_id varchar default null
) returns boolean
language plpgsql
set enable_seqscan = off
as $$
begin
    update treadle.jobs as job
    set status = 'pending',
        attempts = job.attempts - 1,
        run_at = case when p_delay is null then job.run_at else clock_timestamp() + p_delay end,
        worker_id = null,
        claimed_at = null,
        started_at = null
    where job.id = p_id
      and job.status in ('claimed', 'running')
      and (p_lease is null or job.lease = p_lease)
      and (p_worker_id is null or job.worker_id = p_worker_id);
    return found;
end
$$;

comment on function treadle.release_job(uuid, interval, bigint, varchar)
    is 'A holder gives a job back without using an attempt: to its old place, or snoozed for p_delay. False: the lease is lost.';
