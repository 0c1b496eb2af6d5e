-- Claims of workers without a lease that sent no heartbeat for some time, from a sample of the claimed jobs.
with claimed as materialized (
    select job.id, job.job_type, job.worker_id, job.claimed_at, job.started_at, job.created_at, job.seen_at
    from treadle.jobs as job
    where job.status in ('claimed', 'running')
    limit 1000
)
select
    claimed.id::text,
    claimed.job_type,
    claimed.worker_id,
    extract(epoch from clock_timestamp() - heartbeat.at)::double precision as silent
from claimed
left join treadle.workers as worker on worker.worker_id = claimed.worker_id
cross join lateral (
    select greatest(coalesce(claimed.claimed_at, claimed.started_at, claimed.created_at), claimed.seen_at, worker.seen_at) as at
) as heartbeat
where worker.lease is null
  and heartbeat.at < clock_timestamp() - make_interval(secs => %(seconds)s)
order by silent desc
limit 50
