-- The filters that were asked for stand in place of the last line but one: see jobs.list_jobs.
select
    id,
    job_type,
    priority,
    status,
    data::text,
    progress,
    current_stage,
    events_count,
    worker_id,
    claimed_at,
    created_at,
    started_at,
    completed_at,
    attempts,
    max_attempts,
    last_error,
    queue,
    run_at,
    lease,
    holds,
    crashes,
    key,
    finished_at,
    result::text
from treadle.jobs
where (%(after)s::uuid is null or id < %(after)s)
/* filters */
order by id desc
limit %(limit)s
