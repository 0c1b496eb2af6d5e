select /* columns */
from treadle.held_jobs(%(worker_id)s)
