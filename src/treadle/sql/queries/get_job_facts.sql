-- The facts that explain why a job does not run, in one statement. Every part reads a few rows or a bounded range of an
-- index; the cost does not depend on how many jobs there are.
with job as materialized (
    select
        job.id, job.job_type, job.queue, job.priority, job.status, coalesce(job.attempts, 0) as attempts,
        coalesce(job.max_attempts, 0) as max_attempts,
        array_remove(
            array[case when job.attempts is null then 'attempts' end, case when job.max_attempts is null then 'max_attempts' end],
            null
        ) as null_columns,
        job.lease, job.holds, job.flags, job.partition, coalesce(job.weight, 1) as weight,
        job.key, job.run_at, job.worker_id, job.claimed_at, job.created_at, job.started_at, job.seen_at,
        job.finished_at,
        job.progress, job.current_stage, left(job.last_error, 500) as last_error, job.xmax as locker,
        job.origin::text as origin,
        clock_timestamp() as at
    from treadle.jobs as job
    where job.id = %(id)s
),
serving as materialized (
    select worker.worker_id, worker.queues, worker.together, worker.places, busy.jobs as busy
    from job
    cross join lateral treadle.serving_workers(job.queue, job.job_type, job.at) as worker
    cross join lateral (
        select count(*) as jobs
        from (
            select
            from treadle.jobs as claimed
            where claimed.worker_id = worker.worker_id
              and claimed.status in ('claimed', 'running')
              and claimed.job_type = any (worker.together)
            limit worker.places
        ) as claimed
    ) as busy
    where job.status = 'pending'
),
known as materialized (
    select
        worker.worker_id,
        worker.lease is null as by_hand,
        worker.job_types,
        worker.queues,
        serving.worker_id is not null as serves,
        serving.places,
        serving.busy,
        worker.seen_at,
        worker.stuck_since, worker.stuck_kind, worker.stuck_job, worker.stuck_job_type, worker.stuck_stack,
        worker.host, worker.pid
    from job
    cross join treadle.workers as worker
    left join serving on serving.worker_id = worker.worker_id
    where job.status in ('pending', 'claimed', 'running')
      and worker.lost_at is null
      -- A worker without a lease does not register how often it sends heartbeats.
      and worker.seen_at >= job.at - coalesce(worker.lease, interval '1 minute')
    order by serving.worker_id is null, worker.worker_id
    limit 1000
),
finished as materialized (
    -- Attempts that finished. Jobs that were cancelled while they waited do not count.
    select
        sum(minutes.completed + greatest(minutes.failed, minutes.errors)) as jobs,
        extract(epoch from max(meter.reached) - min(minutes.minute)) as seconds
    from treadle.meter as meter
    cross join generate_series(0, 5) as ago (minutes)
    cross join lateral (
        -- Minute by minute, behind offset 0: as one join, the planner would expect a third of the table.
        select counted.minute, counted.queue, counted.job_type, counted.completed, counted.failed, counted.errors
        from treadle.minutes as counted
        where counted.minute = date_trunc('minute', meter.reached) - ago.minutes * interval '1 minute'
          and counted.completed + counted.failed + counted.errors > 0
        offset 0
    ) as minutes
    where meter.reached > (select job.at from job) - interval '2 minutes'
      and exists (
            select
            from (select distinct serving.queues, serving.together from serving) as serving
            where minutes.job_type = any (serving.together)
              and (serving.queues is null or minutes.queue = any (serving.queues))
      )
)
select
    job.at, job.id, job.job_type, job.queue, job.priority, job.status, job.attempts, job.max_attempts, job.lease,
    job.key, treadle.is_blocked_by_key(job.holds), job.run_at, job.worker_id,
    coalesce(job.claimed_at, job.started_at, job.created_at, job.run_at), job.started_at, job.finished_at,
    greatest(job.seen_at, worker.seen_at), job.progress, job.current_stage, job.last_error,
    extract(epoch from worker.lease)::float8, worker.lost_at, worker.worker_id is not null, worker.host, worker.pid,
    worker.stuck_since, worker.stuck_kind, worker.stuck_job, worker.stuck_job_type, worker.stuck_stack,
    worker.stopped_children, beside.jobs, error.attempt, error.failed_at, error.error,
    error.lease is not distinct from job.lease, cancelled.actor, cancelled.reason,
    case when job.status = 'pending' then (/* pauses_of.sql */) end,
    blocking.id, earlier.jobs,
    case
        when job.status = 'pending' and job.locker::text <> '0' then (
            select
                json_build_array(activity.pid, activity.application_name, extract(epoch from activity.xact_start))::text
            from pg_locks as lock
            join pg_stat_activity as activity on activity.pid = lock.pid
            where lock.locktype = 'transactionid'
              and lock.transactionid = job.locker
              and lock.granted
            limit 1
        )
    end,
    (/* live_workers.sql */),
    last_worker.worker_id, last_worker.seen_at,
    ahead.own, ahead.level, ahead.above,
    finished.jobs, finished.seconds::float8,
    extract(epoch from job.at)::float8 - clock.last_value / 1000000.0::float8,
    job.null_columns, quote_ident('treadle'), job.origin,
    (
        select
            json_agg(
                json_build_array(
                    rule.name, rule.kind, nullif(rule.per, ''), rule.key, state.amount,
                    extract(epoch from state.period), state.burst, job.weight, state.in_use, state.running,
                    state.available, extract(epoch from state.opens_at), extract(epoch from state.frees_at),
                    known.declared is not null, state.for_key, state.changed_by, extract(epoch from state.changed_at)
                )
                order by rule.name
            )::text
        from treadle.limits_of(job.queue, job.job_type, job.partition) as rule
        join treadle.limits as known on known.name = rule.name
        cross join lateral treadle.limit_state(rule.name, rule.key, job.weight, job.at) as state
        where job.status = 'pending'
    ),
    treadle.is_waiting(job.status, job.holds),
    coalesce(waited.watched, workflow.first), coalesce(nullif(waited.jobs, 0), workflow.jobs),
    coalesce(workflow.is_open, false),
    job.holds & 4 <> 0,
    job.flags & treadle.flag_workflow() <> 0,
    (/* find_refusal.sql */)
from job
cross join finished
cross join treadle.tick_clock as clock
left join treadle.workers as worker
    on worker.worker_id = job.worker_id
   and job.status in ('claimed', 'running')
left join lateral (
    -- What else its worker runs.
    select count(*) as jobs
    from (
        select
        from treadle.jobs as other
        where other.worker_id = job.worker_id
          and other.status in ('claimed', 'running')
          and other.status = 'running'
          and other.id <> job.id
        limit 1000
    ) as other
) as beside on job.status in ('claimed', 'running')
left join lateral (
    select error.attempt, error.failed_at, left(error.error, 500) as error, error.lease
    from treadle.errors as error
    where error.job_id = job.id
    order by error.failed_at desc
    limit 1
) as error on true
left join lateral (
    -- By time, not by id: for an order by id, the planner could read the audit of all jobs.
    select audit.actor, left(audit.reason, 500) as reason
    from treadle.audit as audit
    where audit.job_id = job.id
      and audit.action = 'cancel'
      and audit.at >= job.finished_at
    order by audit.at desc
    limit 1
) as cancelled on job.status = 'cancelled'
left join lateral (
    -- The job of its key that runs, else the oldest that is not blocked: see is_head_of_key() and job_ended().
    select head.id
    from treadle.key_head(job.key) as head
    where treadle.key_rank(head.status, head.holds) = 0
       or treadle.key_rank(head.status, head.holds) = 1
       and (treadle.is_blocked_by_key(job.holds) or head.id < job.id)
) as blocking on job.status = 'pending' and job.key is not null
left join lateral (
    -- The jobs of its key that go before it, including the one that blocks it. Each rank is a range of idx_jobs_key.
    select count(*) as jobs
    from (
        select
        -- A job that is not blocked does not wait for blocked ones.
        from generate_series(0, 1 + (job.holds & treadle.blocked_by_key())) as kind (rank)
        cross join lateral (
            select
            from treadle.jobs as other
            where other.key = job.key
              and other.status in ('pending', 'claimed', 'running')
              and treadle.key_rank(other.status, other.holds) = kind.rank
              -- All of a lower rank; of its own rank the older ones.
              and other.id < case
                    when kind.rank <= job.holds & treadle.blocked_by_key() then 'ffffffff-ffff-ffff-ffff-ffffffffffff'
                    else job.id
                  end
              and other.id <> job.id
            limit 10001
        ) as other
        limit 10001
    ) as other
) as earlier on blocking.id is not null
left join lateral (
    -- The jobs that it waits for: the one that is watched, and how many have not ended.
    select max(other.id::text) filter (where other.watched)::uuid as watched, count(*) as jobs
    from (
        select source.id, edge.watched
        from treadle.dependencies as edge
        join treadle.jobs as source on source.id = edge.after_id
        where edge.job_id = job.id
          and edge.needs <> 'member'
          and source.finished_at is null
        order by not edge.watched
        limit 1001
    ) as other
) as waited on treadle.is_waiting(job.status, job.holds)
left join lateral (
    -- Of a workflow: one of its jobs that have not ended (that is one of the last), and how many there are.
    select
        workflow.is_open and not workflow.has_plan as is_open,
        workflow.jobs - workflow.completed - workflow.failed - workflow.cancelled
            + coalesce((
                select sum(change.jobs - change.completed - change.failed - change.cancelled)
                from treadle.member_changes as change
                where change.workflow_id = job.id
            ), 0) as jobs,
        (
            select member.id
            from (
                select edge.after_id as id
                from treadle.dependencies as edge
                where edge.job_id = job.id
                  and edge.needs = 'member'
                order by edge.after_id desc
                limit 1000
            ) as member
            join treadle.jobs as source on source.id = member.id
            where source.finished_at is null
            order by source.id
            limit 1
        ) as first
    from treadle.workflows as workflow
    where workflow.id = job.id
) as workflow on job.status = 'pending'
left join lateral (/* last_worker.sql */) as last_worker
    on job.status = 'pending'
    and not exists (select from known where not known.by_hand)
left join lateral treadle.jobs_ahead(case when exists (select from serving) then job.id end) as ahead on true
