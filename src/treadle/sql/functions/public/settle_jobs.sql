-- Ends attempts that did not complete, many in one statement, each fenced by its lease number and worker. Returns
-- the jobs that were accepted, with their new status.
--
-- The outcomes:
--
--   retry      the attempt failed: the job is retried after the delay if it has attempts left, else it fails
--   failed     the job fails
--   cancelled  the handler cancelled the job
--   released   the job is given back without using an attempt: to its old place, or due after the delay
--   limited    the handler was told to wait: as released to its old place, and its limits wait for the delay (of these,
--              those per p_limited_for, if it is given); without limits, the job itself waits
--   crashed    the process died: the job is given back without using an attempt, but fails at the crash limit
--   lost       the whole worker was lost, and nobody knows why: as crashed, but the first loss is free, and only losses
--              without a failed attempt in between are counted
create or replace function treadle.settle_jobs(
    p_worker_id varchar,
    p_ids uuid[],
    p_leases bigint[],
    p_outcomes varchar[],
    p_errors text[] default null,
    p_tracebacks text[] default null,
    p_delays double precision[] default null,
    p_seconds double precision[] default null,
    p_crash_limit int default 3,
    p_limited_for varchar[] default null
) returns table (id uuid, status varchar)
language plpgsql
set treadle.plan = cached_index_ranges
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
    v_ids uuid[];
    v_statuses varchar[];
    v_limited treadle.lane[];
begin
    with ended as materialized (
        select ended.*
        from unnest(p_ids, p_leases, p_outcomes, p_errors, p_tracebacks, p_delays, p_seconds)
            as ended (id, lease, outcome, error, traceback, delay, seconds)
        order by ended.id
    ),
    settled as (
        update treadle.jobs as job
        set status = case
                when ended.outcome = 'cancelled' then 'cancelled'
                when ended.outcome in ('released', 'limited')
                    or ended.outcome = 'retry' and treadle.has_attempts_left(job.attempts, job.max_attempts)
                    or ended.outcome = 'crashed' and job.crashes + 1 < p_crash_limit
                    or ended.outcome = 'lost' and job.crashes + coalesce(job.losses, 0) < p_crash_limit
                    then 'pending'
                else 'failed'
            end, -- the trigger change_job sets finished_at
            run_at = case
                when ended.outcome = 'limited' and exists (
                    select from treadle.limits_of(job.queue, job.job_type, job.partition)
                ) then job.run_at
                when ended.delay is not null then v_now + ended.delay * interval '1 second'
                when ended.outcome = 'retry' then v_now + treadle.retry_delay(job.attempts)
                else job.run_at
            end,
            attempts = job.attempts - (ended.outcome in ('released', 'limited', 'crashed', 'lost'))::int,
            crashes = job.crashes + (ended.outcome = 'crashed')::int,
            losses = case
                when ended.outcome = 'lost' then coalesce(job.losses, 0) + 1
                when ended.outcome not in ('retry', 'failed') then job.losses
            end,
            last_error = case
                when ended.outcome = 'crashed' and job.crashes + 1 >= p_crash_limit
                    then format(
                        'crashed its process %s times, which is the limit; last crash: %s', job.crashes + 1, ended.error
                    )
                when ended.outcome = 'lost' and job.crashes + coalesce(job.losses, 0) >= p_crash_limit
                    then format(
                        'its worker was lost %s times while it ran, which is the limit; last time: %s',
                        coalesce(job.losses, 0) + 1, ended.error
                    )
                else coalesce(ended.error, job.last_error)
            end,
            started_at = case
                when ended.outcome not in ('released', 'limited', 'crashed', 'lost')
                    then coalesce(job.started_at, v_now - ended.seconds * interval '1 second')
            end,
            worker_id = case when ended.outcome = 'cancelled' then job.worker_id end,
            claimed_at = case when ended.outcome = 'cancelled' then job.claimed_at end,
            -- Done below for all of them, not by job_ended().
            flags = job.flags & ~(treadle.flag_opening() | treadle.flag_once())
        from ended
        where job.id = ended.id
          and job.lease = ended.lease
          -- A pending job has no worker; only fail_job() without a lease number ends one.
          and case when job.status = 'pending' then p_worker_id is null else job.worker_id is not distinct from p_worker_id end
          and job.finished_at is null
        returning
            job.id,
            job.status,
            job.attempts + (ended.outcome in ('released', 'limited', 'crashed', 'lost'))::int as attempt,
            job.lease,
            job.started_at,
            ended.outcome,
            ended.error,
            ended.traceback,
            case
                when job.flags & treadle.flag_limited() <> 0
                    then row(job.queue, job.job_type, job.priority, job.partition)::treadle.lane
            end as limited_lane
    ),
    kept as (
        insert into treadle.errors (job_id, attempt, failed_at, worker_id, error, traceback, lease, started_at)
        select
            settled.id, settled.attempt, v_now, p_worker_id, settled.error, settled.traceback, settled.lease,
            settled.started_at
        from settled
        where settled.error is not null
          and settled.outcome in ('retry', 'failed', 'crashed', 'lost')
        -- Two in one microsecond, by a clock that was set back: the outcome counts, not the record of it.
        on conflict do nothing
    )
    select
        array_agg(settled.id), array_agg(settled.status),
        array_agg(settled.limited_lane) filter (where settled.limited_lane is not null)
    into v_ids, v_statuses, v_limited
    from settled;

    if v_limited is not null then
        perform treadle.note_openings(v_limited);
    end if;
    if 'limited' = any (p_outcomes) then
        perform treadle.close_limits(
            array_agg(ended.id), array_agg(v_now + ended.delay * interval '1 second'), array_agg(ended.part)
        )
        from unnest(p_ids, p_outcomes, p_delays, p_limited_for) as ended (id, outcome, delay, part)
        where ended.outcome = 'limited';
    end if;

    perform treadle.announce(p_ids);
    return query select * from unnest(v_ids, v_statuses);
end
$$;
