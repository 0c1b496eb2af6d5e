select id, lease, job_type, data::text, attempts, max_attempts, crashes, queue, priority, key, created_at
from treadle.claim_jobs(%(worker_id)s, %(job_types)s::varchar[], %(batch_size)s, %(queues)s::varchar[])
