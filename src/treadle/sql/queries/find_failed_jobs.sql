-- The newest of the jobs that failed within the last %(seconds)s seconds, with the columns of get_snapshots.sql. The
-- first condition is the predicate of idx_jobs_finished.
select
    id, job_type, status, coalesce(progress, 0), current_stage, pace::text, coalesce(attempts, 0),
    coalesce(max_attempts, 0), left(last_error, 500), holds <> 0 or key is not null, coalesce(events_count, 0), run_at,
    started_at, finished_at, clock_timestamp(), worker_id, queue, priority
from treadle.jobs
where status in ('completed', 'failed', 'cancelled')
  and status = 'failed'
  -- A subquery is computed once: otherwise no index is used for the time, because the function is volatile.
  and finished_at > (select clock_timestamp() - %(seconds)s * interval '1 second')
order by finished_at desc
limit %(limit)s
