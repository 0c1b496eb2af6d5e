create or replace function treadle.claim_jobs(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int default 10,
    p_queues varchar[] default null
) returns setof treadle.jobs
language plpgsql
set enable_seqscan = off
set enable_tidscan = on
set plan_cache_mode = force_generic_plan
as $$
declare
    v_places constant tid[] := treadle.claim_places(p_worker_id, p_job_types, p_batch_size, p_queues);
begin
    return query
    select job.*
    from treadle.jobs as job
    where job.ctid = any (v_places)
    order by job.priority desc, job.run_at, job.id;
end
$$;

comment on function treadle.claim_jobs(varchar, varchar[], int, varchar[])
    is 'Claims up to p_batch_size due jobs of the given types (in the given queues, or in all), highest priority first, then oldest.';
