-- Heads of keys that fail again and again while others are blocked behind them. Such a job is due soon, runs, or waits
-- at the head of its lane.
with known as materialized (
    select known.lane, known.start
    from treadle.safe_tick(pg_current_snapshot()) as safe
    cross join lateral treadle.lanes_to_search(safe) as known
    limit 200
),
sample as materialized (
    select job.*
    from known
    -- The jobs that are due, and those that are due next.
    cross join lateral (values (known.start), (clock_timestamp())) as beginning (at)
    cross join lateral (
        select job.id, job.job_type, job.key, job.attempts, job.max_attempts, job.last_error
        from treadle.lane_jobs(known.lane, beginning.at) as job
        order by job.run_at
        limit 10
    ) as job
    union all
    (
        select job.id, job.job_type, job.key, job.attempts, job.max_attempts, job.last_error
        from treadle.jobs as job
        where job.status in ('claimed', 'running')
        limit 1000
    )
),
failing as materialized (
    select distinct on (sample.id) sample.*, error.first
    from sample
    cross join lateral (
        select min(error.failed_at) as first
        from treadle.errors as error
        where error.job_id = sample.id
    ) as error
    where sample.key is not null
      and sample.last_error is not null
      and error.first < clock_timestamp() - make_interval(secs => %(seconds)s)
    limit 100
)
select
    failing.id::text,
    failing.job_type,
    failing.key,
    failing.attempts,
    failing.max_attempts,
    extract(epoch from clock_timestamp() - failing.first)::double precision,
    behind.number,
    left(failing.last_error, 200)
from failing
cross join lateral (
    select count(*) as number
    from (
        select
        from treadle.jobs as other
        where other.key = failing.key
          and other.status in ('pending', 'claimed', 'running')
          and treadle.key_rank(other.status, other.holds) = 2
        limit 1000
    ) as blocked
) as behind
where behind.number > 0
order by failing.first
limit 50
