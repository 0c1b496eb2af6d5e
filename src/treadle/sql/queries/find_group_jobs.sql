select
    found.id,
    found.at,
    found.fits,
    found.last,
    found.examined,
    job.queue,
    job.status,
    coalesce(job.attempts, 0),
    coalesce(job.max_attempts, 0),
    least(greatest(job.run_at, '0001-01-02'), '9999-12-30'),
    left(job.last_error, 500)
from treadle.find_group_jobs(%(group_id)s, %(status)s, %(at)s, %(id)s, %(limit)s, %(look)s) as found
left join lateral (
    select known.queue, known.status, known.attempts, known.max_attempts, known.run_at, known.last_error
    from treadle.jobs as known
    where known.id = found.id
      and found.fits
    offset 0
) as job on true
order by found.examined
