-- Heads of keys that fail again and again while others are blocked behind them. Such a job is due soon, runs, or waits
-- at the head of its lane.
with failing as materialized (
    select sample.*, error.first
    from treadle.sample_jobs() as sample
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
