select id, job_type, status, worker_id
from treadle.recover_lost_workers(%(crash_limit)s)
