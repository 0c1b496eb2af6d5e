-- The facts that explain why a schedule does not run, in one statement. Every part reads a few rows or a bounded range
-- of an index.
with schedule as materialized (
    select
        known.name, known.job_type, known.queue, known.overlap, known.digest is not null as in_code, known.declared_at,
        known.retired_at, known.paused_at, known.starts_at, known.next_at, known.last_at, known.last_job,
        left(known.error, 500) as error, known.retry_at, clock_timestamp() as at
    from treadle.schedules as known
    where known.name = %(name)s
),
known as materialized (
    select
        worker.worker_id, worker.lease is null as by_hand, worker.job_types, worker.queues,
        coalesce(
            worker.lease is not null
            and schedule.job_type = any (worker.job_types)
            and (worker.queues is null or schedule.queue = any (worker.queues)),
            false
        ) as serves,
        coalesce(changed.concurrency, worker.concurrency) as places,
        null as busy,
        worker.seen_at,
        worker.stuck_since, worker.stuck_kind, worker.stuck_job, worker.stuck_job_type, worker.stuck_stack,
        worker.host, worker.pid
    from schedule
    cross join treadle.workers as worker
    left join treadle.worker_concurrency as changed on changed.worker_id = worker.worker_id
    where worker.lost_at is null
      -- A worker without a lease does not register how often it sends heartbeats.
      and worker.seen_at >= schedule.at - coalesce(worker.lease, interval '1 minute')
    order by serves desc, worker.worker_id
    limit 1000
)
select
    schedule.at, schedule.name, schedule.job_type, schedule.queue, schedule.overlap, schedule.in_code,
    schedule.declared_at, schedule.retired_at, schedule.paused_at, schedule.starts_at,
    nullif(schedule.next_at, 'infinity'), coalesce(schedule.next_at = 'infinity', false), schedule.last_at,
    schedule.last_job,
    (select job.status from treadle.jobs as job where job.id = schedule.last_job),
    schedule.error, schedule.retry_at,
    skipped.times, paused.actor, paused.reason,
    (/* pauses_of.sql */),
    (/* live_workers.sql */),
    last_worker.worker_id, last_worker.seen_at,
    (/* find_refusal.sql */)
from schedule
left join lateral (
    -- The times that were left out since its last job was enqueued.
    select count(*) as times
    from (
        select
        from treadle.occurrences as occurrence
        where occurrence.schedule = schedule.name
          and occurrence.scheduled_for > schedule.last_at
          and occurrence.skipped = 'overlap'
        limit 1001
    ) as occurrence
) as skipped on schedule.overlap = 'skip'
left join lateral (
    -- Who paused it: among the newest changes, because the audit has no index of schedules.
    select recent.actor, left(recent.reason, 500) as reason
    from (
        select audit.id, audit.actor, audit.action, audit.reason, audit.details
        from treadle.audit as audit
        order by audit.id desc
        limit 10000
    ) as recent
    where recent.action = 'pause schedule'
      and recent.details ->> 'schedule' = schedule.name
    order by recent.id desc
    limit 1
) as paused on schedule.paused_at is not null
left join lateral (/* last_worker.sql */) as last_worker on not exists (select from known where not known.by_hand)
