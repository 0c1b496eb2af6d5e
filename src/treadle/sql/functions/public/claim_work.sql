-- claim_jobs() for workers, with only the columns that they need. If p_listen and it finds fewer jobs than it may
-- claim, the last row has only the column due: what next_due() returns then.
create or replace function treadle.claim_work(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int,
    p_queues varchar[],
    p_listen boolean default false,
    p_answered bigint default null
) returns table (
    id uuid, lease bigint, job_type varchar, data text, attempts int, max_attempts int, crashes int, queue varchar,
    priority int, key varchar, checkpoint text, created double precision, origin text,
    headers text, timeout double precision[], due double precision
)
language plpgsql
set treadle.plan = cached_index_ranges
as $$
declare
    v_known treadle.known_lanes;
    v_found int;
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

    v_known := treadle.find_known_lanes(p_job_types, p_queues);
    return query
    select
        job.id, job.lease, job.job_type, job.data::text, job.attempts, job.max_attempts, job.crashes, job.queue,
        job.priority, job.key, job.checkpoint::text, date_part('epoch', coalesce(job.created_at, job.run_at)), job.origin::text,
        job.headers::text, job.timeout, null::double precision
    from treadle.claim_jobs(p_worker_id, p_job_types, p_batch_size, p_queues, v_known) as job;
    get diagnostics v_found = row_count;

    if p_listen and v_found < p_batch_size then
        due := treadle.next_due(p_job_types, p_queues, false, p_answered, v_known);
        return next;
    end if;
end
$$;
