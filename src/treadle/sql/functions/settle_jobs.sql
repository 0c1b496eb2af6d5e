-- How attempts ended that did not complete, many in one statement, each fenced by its lease and holder:
--
--   retry      failed: again after the delay if attempts are left, else failed
--   failed     failed for good
--   cancelled  the handler says that the job is not wanted any more
--   released   given back without using an attempt: to its old place, or after the delay
--   crashed    took its process down: given back without using an attempt, but counted; failed at the limit
--
-- Returns those that were accepted and what they are now.
create or replace function treadle.settle_jobs(
    p_worker_id varchar,
    p_ids uuid[],
    p_leases bigint[],
    p_outcomes varchar[],
    p_errors text[] default null,
    p_tracebacks text[] default null,
    p_delays double precision[] default null,
    p_seconds double precision[] default null,
    p_crash_limit int default 3
) returns table (id uuid, status varchar)
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
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
begin
    return query
    with told as materialized (
        select told.*
        from unnest(p_ids, p_leases, p_outcomes, p_errors, p_tracebacks, p_delays, p_seconds)
            as told (id, lease, outcome, error, traceback, delay, seconds)
        order by told.id
    ),
    settled as (
        update treadle.jobs as job
        set status = case
                when told.outcome = 'cancelled' then 'cancelled'
                when told.outcome = 'released'
                    or told.outcome = 'retry' and job.attempts < job.max_attempts
                    or told.outcome = 'crashed' and job.crashes + 1 < p_crash_limit
                    then 'pending'
                else 'failed'
            end, -- those that end are stamped by stamp_finish
            run_at = case
                when told.delay is not null then v_now + told.delay * interval '1 second'
                when told.outcome = 'retry' then v_now + treadle.retry_delay(job.attempts)
                else job.run_at
            end,
            attempts = job.attempts - (told.outcome in ('released', 'crashed'))::int,
            crashes = job.crashes + (told.outcome = 'crashed')::int,
            last_error = case
                when told.outcome = 'crashed' and job.crashes + 1 >= p_crash_limit
                    then format('took its process down %s times, the limit; the last time: %s', job.crashes + 1, told.error)
                else coalesce(told.error, job.last_error)
            end,
            started_at = case
                when told.outcome not in ('released', 'crashed')
                    then coalesce(job.started_at, v_now - told.seconds * interval '1 second')
            end,
            worker_id = case when told.outcome = 'cancelled' then job.worker_id end,
            claimed_at = case when told.outcome = 'cancelled' then job.claimed_at end
        from told
        where job.id = told.id
          and job.lease = told.lease
          and job.worker_id is not distinct from p_worker_id
          and job.status <> 'pending'
          and job.finished_at is null
        returning
            job.id,
            job.status,
            job.attempts + (told.outcome in ('released', 'crashed'))::int as attempt,
            job.lease,
            job.started_at,
            told.outcome,
            told.error,
            told.traceback
    ),
    kept as (
        insert into treadle.errors (job_id, attempt, failed_at, worker_id, error, traceback, lease, started_at)
        select
            settled.id, settled.attempt, v_now, p_worker_id, settled.error, settled.traceback, settled.lease,
            settled.started_at
        from settled
        where settled.error is not null
          and settled.outcome in ('retry', 'failed', 'crashed')
    )
    select settled.id, settled.status
    from settled;

    perform treadle.announce(p_ids);
end
$$;

comment on function treadle.settle_jobs(varchar, uuid[], bigint[], varchar[], text[], text[], double precision[], double precision[], int)
    is 'How attempts ended that did not complete (retry, failed, cancelled, released, crashed), each fenced by its lease and worker; returns those that were accepted, with their new status.';
