-- After found_jobs.sql: a page of a list, with the columns that the list shows.
select
    found.id,
    found.rank,
    found.at,
    found.fits,
    found.last,
    found.examined,
    job.job_type,
    job.queue,
    job.priority,
    job.status,
    coalesce(job.progress, 0),
    job.current_stage,
    coalesce(job.attempts, 0),
    coalesce(job.max_attempts, 0),
    job.worker_id,
    job.key,
    job.status = 'pending' and job.holds <> 0,
    least(greatest(coalesce(job.created_at, job.run_at), '0001-01-02'), '9999-12-30'),
    least(greatest(job.run_at, '0001-01-02'), '9999-12-30'),
    case when job.started_at between '0001-01-02' and '9999-12-30' then job.started_at end,
    case when job.finished_at between '0001-01-02' and '9999-12-30' then job.finished_at end,
    left(job.last_error, 500)
from found
-- One by one, by id; offset 0 keeps the planner from joining in another way.
left join lateral (
    select
        known.job_type, known.queue, known.priority, known.status, known.progress, known.current_stage, known.attempts,
        known.max_attempts, known.worker_id, known.key, known.holds, known.created_at, known.run_at, known.started_at,
        known.finished_at, known.last_error
    from treadle.jobs as known
    where known.id = found.id
      and found.fits
    offset 0
) as job on true
order by found.nth
