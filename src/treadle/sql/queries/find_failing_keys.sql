-- The first job of a key that keeps failing is due soon, is running, or waits at the head of its lane.
with tick as materialized (
    select treadle.tick_is_fresh() as fresh
),
lane as materialized (
    select
        lane.queue,
        lane.job_type,
        lane.priority,
        max(case when tick.fresh then lane.floor else lane.settled end) as start
    from treadle.lanes as lane
    cross join tick
    group by lane.queue, lane.job_type, lane.priority
    limit 200
),
sample as materialized (
    select job.*
    from lane
    -- The jobs that are due, and the next ones.
    cross join lateral (values (lane.start), (clock_timestamp())) as beginning (at)
    cross join lateral (
        select job.id, job.job_type, job.key, job.attempts, job.max_attempts, job.last_error
        from treadle.jobs as job
        where job.queue = lane.queue
          and job.job_type = lane.job_type
          and job.priority = lane.priority
          and job.run_at >= beginning.at
          and job.status = 'pending'
          and job.holds = 0
          and job.attempts < job.max_attempts
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
          and case other.status when 'pending' then 1 + (other.holds & 1) else 0 end = 2
        limit 1000
    ) as held
) as behind
where behind.number > 0
order by failing.first
limit 50
