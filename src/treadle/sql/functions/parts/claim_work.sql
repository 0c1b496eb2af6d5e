-- claim_jobs() for workers, with only the columns that they need.
create or replace function treadle.claim_work(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int,
    p_queues varchar[]
) returns table (
    id uuid, lease bigint, job_type varchar, data text, attempts int, max_attempts int, crashes int, queue varchar,
    priority int, key varchar, checkpoint text, created double precision, origin text,
    headers text
)
language plpgsql
set enable_seqscan = off
set enable_tidscan = on
set plan_cache_mode = force_generic_plan
as $$
declare
    v_places tid[];
begin
    -- Jobs that may no longer have to wait for others. What is older is left to the tick, so that what an open snapshot keeps is not
    -- read each time. Not in claim_jobs(): the transaction of its caller may stay open, and nobody else could decide until it ends.
    if exists (
        select
        from treadle.dependency_checks as noted
        where noted.noted_at > clock_timestamp() - interval '10 seconds'
    ) then
        perform treadle.advance_waiting(1000);
    end if;

    v_places := treadle.claim_places(p_worker_id, p_job_types, p_batch_size, p_queues);
    return query
    select
        job.id, job.lease, job.job_type, job.data::text, job.attempts, job.max_attempts, job.crashes, job.queue,
        job.priority, job.key, job.checkpoint::text, date_part('epoch', coalesce(job.created_at, job.run_at)), job.origin::text,
        job.headers::text
    from treadle.jobs as job
    where job.ctid = any (v_places)
    order by job.priority desc, job.run_at, job.id;
end
$$;

comment on function treadle.claim_work(varchar, varchar[], int, varchar[])
    is 'claim_jobs() with the columns that a worker needs.';
