-- Part of claim_jobs() until version 0.2. A call of version 0.1 that began before the upgrade may still use it.
-- May be dropped in version 0.3.
create or replace function treadle.take_jobs(p_worker_id varchar, p_now timestamptz, p_places tid[])
returns setof treadle.jobs
language plpgsql
as $$
begin
    return query
    with claimed as (
        update treadle.jobs as job
        set status = 'claimed',
            worker_id = p_worker_id,
            claimed_at = p_now,
            started_at = null,
            seen_at = null,
            attempts = job.attempts + 1,
            lease = job.lease + 1
        where job.ctid = any (p_places)
        returning job.*
    )
    select * from claimed order by run_at, id;
end
$$;

comment on function treadle.take_jobs(varchar, timestamptz, tid[]) is 'Deprecated: part of claim_jobs(). Dropped in version 0.3.';
