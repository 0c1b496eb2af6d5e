select id, lease, job_type, data::text, attempts, max_attempts, crashes, queue, priority, key, created_at
from treadle.jobs
where worker_id = %(worker_id)s
  and status in ('claimed', 'running')
