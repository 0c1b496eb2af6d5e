-- Notes that the event loop of a worker has not run for p_seconds (p_kind: stopped, or blocked by p_job), that it does
-- not begin p_job, which it claimed that long ago (unbegun), or that all is well again (null). The worker keeps its
-- lease and its jobs; one that blocks it is marked as running. The process that renews the worker's lease calls it, and
-- must not wait for a lock.
create or replace function treadle.report_stuck(
    p_worker_id varchar,
    p_kind varchar,
    p_seconds double precision default null,
    p_job uuid default null,
    p_stack text default null
) returns void
language plpgsql
set lock_timeout = '100ms'
as $$
begin
    update treadle.workers as worker
    set stuck_kind = p_kind,
        (stuck_since, stuck_job, stuck_job_type, stuck_stack) = (
            select
                clock_timestamp() - make_interval(secs => coalesce(p_seconds, 0)), p_job,
                (select job.job_type from treadle.jobs as job where job.id = p_job), left(p_stack, 10000)
            where p_kind is not null
        )
    where worker.worker_id = p_worker_id;

    if p_kind = 'blocked' then
        -- The worker itself reports that a job runs after a moment, which does not come while the job blocks it.
        update treadle.jobs as job
        set status = 'running',
            started_at = clock_timestamp() - make_interval(secs => coalesce(p_seconds, 0)),
            progress = 0,
            current_stage = null
        where job.id = (
                select claimed.id
                from treadle.jobs as claimed
                where claimed.id = p_job
                  and claimed.worker_id = p_worker_id
                  and claimed.status = 'claimed'
                for update skip locked
              );
        if found then
            perform treadle.announce(array[p_job], 'news');
        end if;
    end if;
end
$$;
