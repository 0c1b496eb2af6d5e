-- What was written by hand may have times that Python cannot hold, such as infinity; the place in the order keeps them.
select
    found.id,
    found.rank,
    case when isfinite(found.at) then (extract(epoch from found.at) * 1000000)::numeric(20)::text else found.at::text end,
    found.fits,
    found.last,
    found.looked,
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
from treadle.find_jobs(
    %(status)s,
    %(job_type)s,
    %(queue)s,
    %(worker_id)s,
    %(key)s,
    %(search)s,
    %(exact)s,
    %(rank)s,
    case
        when %(at)s::text like '%%infinity' then %(at)s::timestamptz
        else (timestamp 'epoch' + %(at)s::interval) at time zone 'UTC'
    end,
    %(id)s,
    %(limit)s,
    %(look)s,
    %(patience)s::interval
) with ordinality as found (id, rank, at, fits, last, looked, nth)
-- One by one, by their ids: not joined as the planner thinks best.
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
