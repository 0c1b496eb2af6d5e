-- The only statement of a worker that sleeps. On the connection that listens: the reply shows that it works.
select
    treadle.next_work(%(worker_id)s, %(job_types)s, %(queues)s, %(declared)s),
    (
        select changed.concurrency
        from treadle.worker_concurrency as changed
        where changed.worker_id operator(pg_catalog.=) %(worker_id)s
    ),
    known.losses,
    known.next_loss
from treadle.clock_and_losses() as known
