-- For how long the first finished job that is not counted has been finished; null: there is none, or no worker is awake that would
-- count it. Nobody counts what finished more than a day ago.
select extract(epoch from clock_timestamp() - min(finished.at))::double precision
from treadle.meter as meter
cross join unnest(array['completed', 'failed', 'cancelled']) as kind (status)
cross join lateral (
    select job.finished_at as at
    from treadle.jobs as job
    where job.status in ('completed', 'failed', 'cancelled')
      and job.status = kind.status
      and job.finished_at > greatest(meter.reached, clock_timestamp() - interval '1 day')
    order by job.finished_at
    limit 1
) as finished
where exists (
    select
    from treadle.workers as worker
    where worker.lost_at is null
      and worker.version is not null
      and worker.asleep_at is null
      and worker.seen_at >= clock_timestamp() - worker.lease
      and worker.started_at <= clock_timestamp() - interval '1 minute'
)
