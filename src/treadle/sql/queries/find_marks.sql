-- Pauses, resumes, deployments and starts of workers in the last %(window)s seconds, the oldest first; at most
-- %(limit)s of each kind, the newest.
select mark.at, mark.kind, mark.job_type, mark.queue, mark.by, mark.workers
from (
    (
        select act.at, act.action as kind, act.job_type, act.queue, act.actor as by, null::int as workers
        from (
            -- Along idx_audit_queue.
            select entry.id, entry.at, entry.action, entry.job_type, entry.queue, entry.actor
            from treadle.audit as entry
            where entry.job_id is null
            order by entry.id desc
            limit 1000
        ) as act
        where act.action in ('pause', 'resume')
          and act.at >= clock_timestamp() - make_interval(secs => %(window)s)
        order by act.id desc
        limit %(limit)s
    )
    union all
    (
        select deployment.first_seen, 'deploy', null, null, deployment.version, null
        from treadle.deployments as deployment
        where deployment.first_seen >= clock_timestamp() - make_interval(secs => %(window)s)
        order by deployment.first_seen desc
        limit %(limit)s
    )
    union all
    (
        select started.minute, 'start', null, null, started.version, max(started.workers)
        from (
            select known.minute, known.version, known.workers
            from treadle.worker_starts as known
            where known.minute >= clock_timestamp() - make_interval(secs => %(window)s)
            union all
            -- Those that no worker has written down yet.
            select date_trunc('minute', worker.started_at), coalesce(worker.version, ''), count(*)::int
            from treadle.workers as worker
            where worker.lease is not null
              and worker.started_at >= clock_timestamp() - make_interval(secs => least(%(window)s, 3600))
            group by 1, 2
        ) as started
        -- Those that began a deployment have its mark. A worker registers its version just after itself.
        where not exists (
            select
            from treadle.deployments as deployment
            where deployment.first_seen >= started.minute
              and deployment.first_seen < started.minute + interval '65 seconds'
        )
        group by started.minute, started.version
        order by started.minute desc
        limit %(limit)s
    )
) as mark
order by mark.at
