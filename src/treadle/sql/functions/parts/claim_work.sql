-- claim_jobs() for workers, with only the columns that they need.
create or replace function treadle.claim_work(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int,
    p_queues varchar[]
) returns table (
    id uuid, lease bigint, job_type varchar, data text, attempts int, max_attempts int, crashes int, queue varchar,
    priority int, key varchar, checkpoint text, created double precision, origin text
)
language plpgsql
set enable_seqscan = off
set enable_tidscan = on
set plan_cache_mode = force_generic_plan
as $$
declare
    v_places constant tid[] := treadle.claim_places(p_worker_id, p_job_types, p_batch_size, p_queues);
begin
    return query
    select
        job.id, job.lease, job.job_type, job.data::text, job.attempts, job.max_attempts, job.crashes, job.queue,
        job.priority, job.key, job.checkpoint::text, date_part('epoch', coalesce(job.created_at, job.run_at)), job.origin::text
    from treadle.jobs as job
    where job.ctid = any (v_places)
    order by job.priority desc, job.run_at, job.id;
end
$$;

comment on function treadle.claim_work(varchar, varchar[], int, varchar[])
    is 'claim_jobs() with the columns that a worker needs.';
