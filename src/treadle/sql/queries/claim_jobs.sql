select /* columns */
from treadle.claim_jobs(%(worker_id)s, %(job_types)s::varchar[], %(batch_size)s, %(queues)s::varchar[])
