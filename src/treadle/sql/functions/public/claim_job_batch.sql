-- claim_jobs() under the name and with the arguments of the specification.
create or replace function treadle.claim_job_batch(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int default 10
) returns setof treadle.jobs
language plpgsql
set enable_seqscan = off
set enable_tidscan = on
set plan_cache_mode = force_generic_plan
as $$
declare
    v_places constant tid[] := treadle.claim_places(p_worker_id, p_job_types, p_batch_size, null);
begin
    return query
    select job.*
    from treadle.jobs as job
    where job.ctid = any (v_places)
    order by job.priority desc, job.run_at, job.id;
end
$$;

comment on function treadle.claim_job_batch(varchar, varchar[], int)
    is 'Claims up to p_batch_size pending jobs of the given types, highest priority first, then oldest: select * from treadle.claim_job_batch(''worker-1'', ''{welcome}'').';
