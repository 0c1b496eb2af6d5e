-- Gives back the jobs of workers that sent neither a heartbeat (workers.seen_at) nor a report about the job
-- (jobs.seen_at) for p_timeout; those without attempts left fail. Returns how many. If there never was a sign, the age
-- of the claim counts. A sign from the future is from before the clock was set back: if there is no other, the time of
-- that jump counts.
create or replace function treadle.recover_stale_jobs(
    p_timeout interval,
    p_now timestamptz default clock_timestamp()
) returns int
language plpgsql
set treadle.plan = nested_loops
as $$
declare
    v_before constant timestamptz := treadle.clock_before(p_timeout, p_now);
    v_set_back timestamptz;
    v_recovered int;
    v_failed uuid[];
begin
    select jump.after
    into v_set_back
    from treadle.clock_jumps as jump
    where jump.after < jump.before
    order by jump.id desc
    limit 1;

    with stale as materialized (
        select
            job.id, job.worker_id, job.started_at,
            not treadle.has_attempts_left(job.attempts, job.max_attempts) or begun.once as exhausted,
            begun.once
        from treadle.jobs as job
        left join treadle.workers as worker on worker.worker_id = job.worker_id
        cross join lateral (select treadle.has_begun_once(job.status, job.flags) as once) as begun
        where job.status in ('claimed', 'running')
          and (
                select coalesce(max(sign.at) filter (where sign.at <= p_now), least(v_set_back, p_now), p_now)
                from (
                    values (coalesce(job.claimed_at, job.started_at, job.created_at)), (job.seen_at), (worker.seen_at)
                ) as sign (at)
              ) < v_before
        order by job.id
        for no key update of job skip locked
    ),
    recovered as (
        update treadle.jobs as job
        set status = case when stale.exhausted then 'failed' else 'pending' end,
            finished_at = case when stale.exhausted then clock_timestamp() end,
            last_error = case
                when stale.once then treadle.describe_once(format(
                    'worker %s sent no heartbeat for %s', coalesce(job.worker_id, '(unknown)'), p_timeout
                ))
                when stale.exhausted then format(
                    'worker %s sent no heartbeat for %s during the last attempt (%s of %s)',
                    coalesce(job.worker_id, '(unknown)'), p_timeout, job.attempts, job.max_attempts
                )
                else job.last_error
            end,
            crashes = job.crashes + 1,
            worker_id = null,
            claimed_at = null,
            started_at = null
        from stale
        where job.id = stale.id
        returning
            job.id, job.status, job.last_error, job.attempts, job.lease, job.finished_at, stale.worker_id,
            stale.started_at
    ),
    kept as (
        insert into treadle.errors (job_id, attempt, failed_at, worker_id, error, lease, started_at)
        select
            recovered.id, recovered.attempts, recovered.finished_at, recovered.worker_id, recovered.last_error,
            recovered.lease, recovered.started_at
        from recovered
        where recovered.status = 'failed'
        on conflict do nothing
    )
    select count(*), array_agg(recovered.id) filter (where recovered.status = 'failed')
    into v_recovered, v_failed
    from recovered;

    if v_failed is not null then
        perform treadle.announce(v_failed);
    end if;
    return v_recovered;
end
$$;
