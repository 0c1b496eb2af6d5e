-- What an operator has set for this worker.
select changed.concurrency
from treadle.worker_concurrency as changed
where changed.worker_id operator(pg_catalog.=) %(worker_id)s
