-- Counts the jobs that finished since the last call, per minute and in total, for charts and metrics. Workers call it
-- every few seconds. Returns how many rows of minutes changed.
--
-- It reads idx_jobs_finished up to p_lag before now, so that a job whose transaction is just committing is still
-- counted. The cost depends on how many jobs finished since. At most p_limit jobs of each status, and p_limit errors,
-- are counted at a time; later calls count the rest.
create or replace function treadle.count_minutes(
    p_lag interval default '3 seconds',
    p_limit int default 100000,
    p_keep interval default '7 days'
) returns int
language plpgsql
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

    -- Stop at the first job or error above the limit. Many jobs can finish at the same time, so advance by 1 ms at
    -- least.
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
            job.status,
            -- An UPDATE by hand can write infinity, which cannot be subtracted.
            case
                when job.status = 'completed' and isfinite(job.claimed_at) and isfinite(job.run_at)
                    then greatest(0, extract(epoch from job.claimed_at - job.run_at))
            end as waited,
            case
                when job.status = 'completed' and isfinite(job.started_at)
                    then greatest(0, extract(epoch from job.finished_at - job.started_at))
            end as ran,
            job.id
        from unnest(array['completed', 'failed', 'cancelled']) as kind (status)
        cross join lateral (
            select
                job.id, job.finished_at, job.queue, job.job_type, job.status, job.claimed_at, job.run_at, job.started_at
            from treadle.jobs as job
            where job.status in ('completed', 'failed', 'cancelled')
              and job.status = kind.status
              and job.finished_at >= v_from
              and job.finished_at < v_to
        ) as job
        union all
        select date_trunc('minute', error.failed_at), job.queue, job.job_type, 'error', null, null, null
        from treadle.errors as error
        join treadle.jobs as job on job.id = error.job_id
        where error.failed_at >= v_from
          and error.failed_at < v_to
    ),
    -- Used twice, and read once.
    summed as materialized (
        select
            finished.minute,
            finished.queue,
            finished.job_type,
            count(*) filter (where finished.status = 'completed') as completed,
            count(*) filter (where finished.status = 'failed') as failed,
            count(*) filter (where finished.status = 'cancelled') as cancelled,
            count(*) filter (where finished.status = 'error') as errors,
            coalesce(sum(finished.waited), 0) as waited,
            coalesce(max(finished.waited), 0) as waited_most,
            coalesce(sum(finished.ran), 0) as ran,
            coalesce(max(finished.ran), 0) as ran_most,
            treadle.count_by_bucket(array_agg(finished.waited)) as waited_counts,
            treadle.count_by_bucket(array_agg(finished.ran)) as ran_counts,
            (array_agg(finished.id order by finished.ran desc) filter (where finished.ran is not null))[1] as slowest_id
        from finished
        group by finished.minute, finished.queue, finished.job_type
    ),
    totalled as (
        insert into treadle.totals as total
            (queue, job_type, completed, failed, cancelled, errors, waited, ran, waited_counts, ran_counts, counted_at)
        select
            summed.queue,
            summed.job_type,
            sum(summed.completed),
            sum(summed.failed),
            sum(summed.cancelled),
            sum(summed.errors),
            sum(summed.waited),
            sum(summed.ran),
            treadle.sum_counts(jsonb_agg(summed.waited_counts)),
            treadle.sum_counts(jsonb_agg(summed.ran_counts)),
            v_now
        from summed
        group by summed.queue, summed.job_type
        on conflict (queue, job_type) do update
        set completed = total.completed + excluded.completed,
            failed = total.failed + excluded.failed,
            cancelled = total.cancelled + excluded.cancelled,
            errors = total.errors + excluded.errors,
            waited = total.waited + excluded.waited,
            ran = total.ran + excluded.ran,
            waited_counts = treadle.sum_counts(jsonb_build_array(total.waited_counts, excluded.waited_counts)),
            ran_counts = treadle.sum_counts(jsonb_build_array(total.ran_counts, excluded.ran_counts)),
            counted_at = excluded.counted_at
    ),
    counted as (
        insert into treadle.minutes as minutes (
            minute, queue, job_type, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most,
            waited_counts, ran_counts, slowest_id
        )
        select
            summed.minute, summed.queue, summed.job_type, summed.completed, summed.failed, summed.cancelled,
            summed.errors, summed.waited, summed.waited_most, summed.ran, summed.ran_most, summed.waited_counts,
            summed.ran_counts,
            summed.slowest_id
        from summed
        on conflict (minute, queue, job_type) do update
        set completed = minutes.completed + excluded.completed,
            failed = minutes.failed + excluded.failed,
            cancelled = minutes.cancelled + excluded.cancelled,
            errors = minutes.errors + excluded.errors,
            waited = minutes.waited + excluded.waited,
            waited_most = greatest(minutes.waited_most, excluded.waited_most),
            ran = minutes.ran + excluded.ran,
            ran_most = greatest(minutes.ran_most, excluded.ran_most),
            slowest_id = case
                when minutes.slowest_id is null or excluded.ran_most > minutes.ran_most
                    then coalesce(excluded.slowest_id, minutes.slowest_id)
                else minutes.slowest_id
            end,
            waited_counts = treadle.sum_counts(jsonb_build_array(minutes.waited_counts, excluded.waited_counts)),
            ran_counts = treadle.sum_counts(jsonb_build_array(minutes.ran_counts, excluded.ran_counts))
        returning 1
    )
    select count(*) into v_counted from counted;

    update treadle.meter set reached = v_to;
    perform treadle.sum_minutes(v_to);

    delete from treadle.minutes where minute < v_now - p_keep;
    delete from treadle.totals where counted_at < v_now - interval '30 days';
    return v_counted;
end
$$;
