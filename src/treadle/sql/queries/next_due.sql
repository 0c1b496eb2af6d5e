-- With the number that an operator has set for this worker: a worker without jobs sends no statement of its own for it.
--
-- It need not wait until its request for notifications is on disk: after a crash of the server, the worker connects and asks again.
select
    treadle.next_due(
        p_job_types => %(job_types)s, p_queues => %(queues)s, p_sure => %(sure)s,
        p_answered => %(answered)s
    ),
    (
        select changed.concurrency
        from treadle.worker_concurrency as changed
        where changed.worker_id operator(pg_catalog.=) %(worker_id)s
    )
from pg_catalog.set_config('synchronous_commit', 'off', true)
