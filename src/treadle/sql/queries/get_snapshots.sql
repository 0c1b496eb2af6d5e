-- The given jobs, and with %(running)s all other running jobs. Without payloads, which may be large: this is read
-- several times per second. A viewer may not read all columns.
select
    id, job_type, status, coalesce(progress, 0), current_stage, pace::text, coalesce(attempts, 0),
    coalesce(max_attempts, 0), left(last_error, 500), holds <> 0 or key is not null, coalesce(events_count, 0), run_at,
    started_at, finished_at, clock_timestamp(), worker_id, queue, priority
from (
    select
        id, job_type, status, progress, current_stage, pace, attempts, max_attempts, last_error, holds, key,
        events_count, run_at, started_at, finished_at, worker_id, queue, priority
    from treadle.jobs
    where id = any (%(ids)s::uuid[])
    union all
    (
        -- The first condition is the predicate of idx_jobs_worker. The order makes the planner use that index: with
        -- statistics from when most jobs were running, it would read the whole table.
        select
            id, job_type, status, progress, current_stage, pace, attempts, max_attempts, last_error, holds, key,
            events_count, run_at, started_at, finished_at, worker_id, queue, priority
        from treadle.jobs
        where %(running)s
          and status in ('claimed', 'running')
          and status = 'running'
          and id <> all (%(ids)s::uuid[])
        order by worker_id
        limit %(limit)s
    )
) as job
order by id
