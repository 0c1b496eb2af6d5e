-- Counts the jobs that finished since the last call, per minute, for charts. Workers call it every few seconds.
--
-- It reads idx_jobs_finished up to p_lag before now, so that a job whose transaction is just committing is still counted;
-- one whose transaction takes longer than p_lag is left out. The cost depends on how many jobs finished since, not on the
-- size of the table, and the pages with charts need not count. At most p_limit jobs of each status, and p_limit errors,
-- are counted at a time; later calls count the rest.
create or replace function treadle.count_minutes(
    p_lag interval default '3 seconds',
    p_limit int default 100000,
    p_keep interval default '7 days'
) returns int
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_from timestamptz;
    v_to timestamptz := v_now - p_lag;
    v_next timestamptz;
    v_counted int;
begin
    -- One call at a time, until it commits.
    if not pg_try_advisory_xact_lock(hashtext('treadle count'), hashoid('treadle.meter'::regclass)) then
        return 0;
    end if;

    select meter.reached into v_from from treadle.meter as meter;
    if v_from > v_now then
        -- The clock was set back: start again.
        update treadle.meter set reached = v_to;
        return 0;
    end if;
    v_from := greatest(v_from, v_now - interval '1 day');
    if v_to <= v_from then
        return 0;
    end if;

    -- Stop at the first job or error above the limit. Many jobs can finish at the same time, so advance by 1 ms at least.
    select min(late.at)
    into v_next
    from (
        select job.finished_at as at
        from unnest(array['completed', 'failed', 'cancelled']) as kind (status)
        cross join lateral (
            select job.finished_at
            from treadle.jobs as job
            where job.status in ('completed', 'failed', 'cancelled')
              and job.status = kind.status
              and job.finished_at >= v_from
              and job.finished_at < v_to
            order by job.finished_at
            offset p_limit
            limit 1
        ) as job
        union all
        (
            select error.failed_at
            from treadle.errors as error
            where error.failed_at >= v_from
              and error.failed_at < v_to
            order by error.failed_at
            offset p_limit
            limit 1
        )
    ) as late;
    if v_next is not null then
        v_to := greatest(v_next, v_from + interval '1 millisecond');
    end if;

    with finished as (
        select
            date_trunc('minute', job.finished_at) as minute,
            job.queue,
            job.job_type,
            (job.status = 'completed')::int as completed,
            (job.status = 'failed')::int as failed,
            (job.status = 'cancelled')::int as cancelled,
            0 as errors,
            -- An UPDATE by hand can write infinity, which cannot be subtracted.
            case
                when job.status = 'completed' and isfinite(job.claimed_at) and isfinite(job.run_at)
                    then greatest(0, extract(epoch from job.claimed_at - job.run_at))
            end as waited,
            case
                when job.status = 'completed' and isfinite(job.started_at)
                    then greatest(0, extract(epoch from job.finished_at - job.started_at))
            end as ran
        from unnest(array['completed', 'failed', 'cancelled']) as kind (status)
        cross join lateral (
            select job.finished_at, job.queue, job.job_type, job.status, job.claimed_at, job.run_at, job.started_at
            from treadle.jobs as job
            where job.status in ('completed', 'failed', 'cancelled')
              and job.status = kind.status
              and job.finished_at >= v_from
              and job.finished_at < v_to
        ) as job
        union all
        select date_trunc('minute', error.failed_at), job.queue, job.job_type, 0, 0, 0, 1, null, null
        from treadle.errors as error
        join treadle.jobs as job on job.id = error.job_id
        where error.failed_at >= v_from
          and error.failed_at < v_to
    ),
    counted as (
        insert into treadle.minutes as minutes
            (minute, queue, job_type, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most)
        select
            finished.minute,
            finished.queue,
            finished.job_type,
            sum(finished.completed),
            sum(finished.failed),
            sum(finished.cancelled),
            sum(finished.errors),
            coalesce(sum(finished.waited), 0),
            coalesce(max(finished.waited), 0),
            coalesce(sum(finished.ran), 0),
            coalesce(max(finished.ran), 0)
        from finished
        group by finished.minute, finished.queue, finished.job_type
        on conflict (minute, queue, job_type) do update
        set completed = minutes.completed + excluded.completed,
            failed = minutes.failed + excluded.failed,
            cancelled = minutes.cancelled + excluded.cancelled,
            errors = minutes.errors + excluded.errors,
            waited = minutes.waited + excluded.waited,
            waited_most = greatest(minutes.waited_most, excluded.waited_most),
            ran = minutes.ran + excluded.ran,
            ran_most = greatest(minutes.ran_most, excluded.ran_most)
        returning 1
    )
    select count(*) into v_counted from counted;

    update treadle.meter set reached = v_to;

    delete from treadle.minutes where minute < v_now - p_keep;
    return v_counted;
end
$$;

comment on function treadle.count_minutes(interval, int, interval)
    is 'Counts the jobs that finished since the last call in treadle.minutes, for charts. Returns how many of its rows changed. Workers call it every few seconds.';
