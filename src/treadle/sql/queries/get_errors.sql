select attempt, failed_at, worker_id, error, traceback
from treadle.errors
where job_id = %(id)s
order by failed_at, attempt
