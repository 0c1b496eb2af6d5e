select log.job_id, log.number, log.logged_at, log.attempt, log.level, log.logger, log.message
from unnest(%(ids)s::uuid[], %(after)s::int[]) as watched (job_id, number)
cross join lateral (
    select *
    from treadle.logs
    where job_id = watched.job_id
      and number > watched.number
    order by number desc
    limit %(limit)s
) as log
order by log.job_id, log.number
