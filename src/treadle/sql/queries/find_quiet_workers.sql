-- Live worker processes that have neither claimed nor finished a job for some time, with their slots and the jobs that
-- they have claimed. Not clients of other programs, which register no version.
with finished as materialized (
    select job.worker_id, job.finished_at
    from unnest(array['completed', 'failed']) as kind (status)
    cross join lateral (
        select job.worker_id, job.finished_at
        from treadle.jobs as job
        where job.status in ('completed', 'failed', 'cancelled')
          and job.status = kind.status
        order by job.finished_at desc
        limit 500
    ) as job
    union all
    (
        select error.worker_id, error.failed_at
        from treadle.errors as error
        order by error.failed_at desc
        limit 500
    )
),
worker as materialized (
    select
        worker.worker_id, worker.host, worker.pid, worker.job_types, worker.queues, worker.started_at,
        coalesce(changed.concurrency, worker.concurrency) as concurrency, worker.process_types,
        -- With 0, it claims nothing.
        case when changed.concurrency = 0 then 0 else coalesce(worker.children, 0) end as children
    from treadle.workers as worker
    left join treadle.worker_concurrency as changed on changed.worker_id = worker.worker_id
    where worker.lost_at is null
      and worker.version is not null
      and worker.concurrency is not null
      and worker.stuck_since is null -- another finding
      and worker.seen_at >= clock_timestamp() - worker.lease
      and worker.started_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
      and not exists (
            select
            from finished
            where finished.worker_id = worker.worker_id
              and finished.finished_at > clock_timestamp() - make_interval(secs => %(seconds)s)
      )
    order by worker.worker_id
    limit 200
)
select
    worker.worker_id,
    worker.host,
    worker.pid,
    worker.job_types::text[],
    worker.queues::text[],
    coalesce(worker.process_types, '{}')::text[],
    extract(epoch from clock_timestamp() - greatest(worker.started_at, claimed.newest))::double precision,
    worker.concurrency,
    claimed.running,
    claimed.unstarted,
    worker.children,
    claimed.in_children
from worker
cross join lateral (
    select
        count(*) as jobs,
        max(job.claimed_at) as newest,
        count(*) filter (where job.status = 'running' and not job.in_child) as running,
        count(*) filter (where job.status = 'claimed' and not job.in_child) as unstarted,
        count(*) filter (where job.in_child) as in_children
    from (
        select
            job.status,
            job.claimed_at,
            -- A job that ran in a process that died runs in a child process, too.
            job.crashes > 0 or coalesce(job.job_type = any (worker.process_types), false) as in_child
        from treadle.jobs as job
        where job.worker_id = worker.worker_id
          and job.status in ('claimed', 'running')
        limit 1000
    ) as job
) as claimed
-- Of a worker with more jobs than were read, it is not known how many slots are free.
where claimed.jobs < 1000
  and (claimed.newest is null or claimed.newest <= clock_timestamp() - make_interval(secs => %(seconds)s))
order by worker.worker_id
