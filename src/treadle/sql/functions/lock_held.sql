-- Those of the jobs that this worker holds under these leases, locked until the transaction ends: nobody else can take
-- them, nor end them.
create or replace function treadle.lock_held(p_worker_id varchar, p_ids uuid[], p_leases bigint[]) returns uuid[]
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_indexscan = on
set enable_nestloop = on
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select coalesce(array_agg(held.id), '{}')
        from (
            select job.id
            from unnest(p_ids, p_leases) as told (id, lease)
            join treadle.jobs as job on job.id = told.id
            where job.lease = told.lease
              and job.worker_id is not distinct from p_worker_id
              and job.status <> 'pending'
              and job.finished_at is null
            order by job.id
            for no key update of job
        ) as held
    );
end
$$;

comment on function treadle.lock_held(varchar, uuid[], bigint[])
    is 'Part of what a holder writes: locks those of the jobs that are still held under these leases, and returns them.';
