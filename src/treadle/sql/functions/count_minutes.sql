-- Counts what has ended since the last call, minute by minute, for charts. Called every few seconds by the workers.
--
-- It goes along idx_jobs_finished and stays behind the clock, so that an end that is being committed is still counted;
-- one whose transaction takes longer than p_lag is left out. So it costs what has ended since, whatever the table holds,
-- and pages never count. At most p_limit ends of each kind at a time: after a pause the rest is counted by the next calls.
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
    -- One at a time, to its commit.
    if not pg_try_advisory_xact_lock(hashtext('treadle count'), hashoid('treadle.meter'::regclass)) then
        return 0;
    end if;

    select meter.reached into v_from from treadle.meter as meter;
    if v_from > v_now then
        -- The clock was set back: begin anew.
        update treadle.meter set reached = v_to;
        return 0;
    end if;
    v_from := greatest(v_from, v_now - interval '1 day');
    if v_to <= v_from then
        return 0;
    end if;

    -- Up to the end that is one too many. Many ends can share a moment: never less than a millisecond.
    select min(late.finished_at)
    into v_next
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
    ) as late;
    if v_next is not null then
        v_to := greatest(v_next, v_from + interval '1 millisecond');
    end if;

    with ended as (
        select
            date_trunc('minute', job.finished_at) as minute,
            job.queue,
            job.job_type,
            (job.status = 'completed')::int as completed,
            (job.status = 'failed')::int as failed,
            (job.status = 'cancelled')::int as cancelled,
            0 as errors,
            -- By hand anything can be written: what is not a time cannot be subtracted.
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
            ended.minute,
            ended.queue,
            ended.job_type,
            sum(ended.completed),
            sum(ended.failed),
            sum(ended.cancelled),
            sum(ended.errors),
            coalesce(sum(ended.waited), 0),
            coalesce(max(ended.waited), 0),
            coalesce(sum(ended.ran), 0),
            coalesce(max(ended.ran), 0)
        from ended
        group by ended.minute, ended.queue, ended.job_type
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
    is 'Counts what has ended since the last call in treadle.minutes, for charts; returns how many rows of it changed. For whoever works, every few seconds.';
