-- The jobs that are asked for, and with %(running)s whatever else runs (along idx_jobs_worker). Narrow: this is read a few
-- times a second, and payloads may be large.
select
    id, job_type, status, progress, current_stage, pace::text, attempts, max_attempts, left(last_error, 500),
    holds <> 0 or key is not null, events_count, run_at, started_at, finished_at, clock_timestamp()
from (
    select *
    from treadle.jobs
    where id = any (%(ids)s::uuid[])
    union all
    (
        select *
        from treadle.jobs
        where %(running)s
          and status in ('claimed', 'running')
          and status = 'running'
          and id <> all (%(ids)s::uuid[])
        order by id
        limit %(limit)s
    )
) as job
order by id
