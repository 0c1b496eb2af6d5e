select attempt, failed_at, worker_id, error, traceback, started_at
from treadle.errors
where job_id operator(pg_catalog.=) %(id)s
order by failed_at, attempt
