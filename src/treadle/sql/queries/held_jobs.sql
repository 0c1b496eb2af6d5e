select id, lease, job_type, data::text, attempts, max_attempts, crashes, queue, priority, key, created_at
from treadle.held_jobs(%(worker_id)s)
