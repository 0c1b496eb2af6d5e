-- Jobs that are held by hand and whose holder has been silent: a sample of what is held.
with held as materialized (
    select job.id, job.job_type, job.worker_id, job.claimed_at, job.started_at, job.created_at, job.seen_at
    from treadle.jobs as job
    where job.status in ('claimed', 'running')
    limit 1000
)
select
    held.id::text,
    held.job_type,
    held.worker_id,
    extract(epoch from clock_timestamp() - sign.at)::double precision as silent
from held
left join treadle.workers as worker on worker.worker_id = held.worker_id
cross join lateral (
    select greatest(coalesce(held.claimed_at, held.started_at, held.created_at), held.seen_at, worker.seen_at) as at
) as sign
where worker.lease is null
  and sign.at < clock_timestamp() - make_interval(secs => %(seconds)s)
order by silent desc
limit 50
