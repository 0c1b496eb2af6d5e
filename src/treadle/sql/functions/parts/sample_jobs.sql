-- For the doctor: the first jobs of some lanes, both of those that are due and of those that are due next, and jobs
-- that are claimed. Jobs that come back again and again are among them.
create or replace function treadle.sample_jobs()
returns table (
    id uuid, job_type varchar, status varchar, key varchar, attempts int, max_attempts int, crashes int, last_error text
)
language sql stable
as $$
    with known as materialized (
        select known.lane, known.start
        from treadle.safe_tick(pg_current_snapshot()) as safe
        cross join lateral treadle.lanes_to_search(safe) as known
        limit 200
    )
    select job.*
    from known
    cross join lateral (values (known.start), (clock_timestamp())) as beginning (at)
    cross join lateral (
        select job.id, job.job_type, job.status, job.key, job.attempts, job.max_attempts, job.crashes, job.last_error
        from treadle.lane_jobs(known.lane, beginning.at) as job
        order by job.run_at
        limit 10
    ) as job
    union
    (
        select job.id, job.job_type, job.status, job.key, job.attempts, job.max_attempts, job.crashes, job.last_error
        from treadle.jobs as job
        where job.status in ('claimed', 'running')
        limit 1000
    )
$$;
