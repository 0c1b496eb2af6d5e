-- Pending jobs that no claim can ever find, because attempts < max_attempts is not true. There is no index for them, so
-- this examines a sample: jobs that block others with their key, jobs with a unique key, and the oldest and the newest
-- jobs. One that stays becomes one of the oldest, because finished jobs are pruned.
with blocked as materialized (
    select job.key
    from treadle.jobs as job
    where job.status = 'pending'
      and job.holds <> 0
    limit 1000
),
sample as (
    select head.id, head.job_type, head.status, head.attempts, head.max_attempts, blocked.key
    from (select distinct blocked.key from blocked where blocked.key is not null) as blocked
    cross join lateral treadle.key_head(blocked.key) as head
    union
    (
        select job.id, job.job_type, job.status, job.attempts, job.max_attempts, job.key
        from treadle.jobs as job
        where job.unique_key is not null
          and job.status in ('pending', 'claimed', 'running')
        limit 1000
    )
    union
    (
        select job.id, job.job_type, job.status, job.attempts, job.max_attempts, job.key
        from treadle.jobs as job
        order by job.id
        limit 1000
    )
    union
    (
        select job.id, job.job_type, job.status, job.attempts, job.max_attempts, job.key
        from treadle.jobs as job
        order by job.id desc
        limit 1000
    )
),
unclaimable as materialized (
    select sample.id, sample.job_type, sample.attempts, sample.max_attempts, sample.key
    from sample
    where sample.status = 'pending'
      and treadle.has_attempts_left(sample.attempts, sample.max_attempts) is not true
    order by sample.id
    limit 20
)
select
    unclaimable.id::text,
    unclaimable.job_type,
    unclaimable.attempts,
    unclaimable.max_attempts,
    unclaimable.key,
    behind.number
from unclaimable
cross join lateral (
    select count(*) as number
    from (
        select
        from treadle.jobs as other
        where other.key = unclaimable.key
          and other.status in ('pending', 'claimed', 'running')
          and treadle.key_rank(other.status, other.holds) = 2
          and other.id > unclaimable.id
        limit 1000
    ) as blocked
) as behind
order by unclaimable.id
