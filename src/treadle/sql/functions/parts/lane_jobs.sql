-- The claimable jobs of a lane that are due at p_start or later: one range of idx_jobs_claimable. The planner inlines
-- this function, so the columns that the caller does not use cost nothing. It returns only columns that a viewer may
-- read. Claims do not use it: rows cannot be locked through a function.
create or replace function treadle.lane_jobs(p_lane treadle.lane, p_start timestamptz)
returns table (
    id uuid, job_type varchar, key varchar, run_at timestamptz, status varchar, attempts int, max_attempts int,
    crashes int, worker_id varchar, last_error text, locked_by xid
)
language sql stable
as $$
    select
        job.id, job.job_type, job.key, job.run_at, job.status, job.attempts, job.max_attempts,
        job.crashes, job.worker_id, job.last_error, job.xmax
    from treadle.jobs as job
    where treadle.is_in_lane(job.queue, job.job_type, job.priority, job.partition, p_lane)
      and job.run_at >= p_start
      and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
$$;
