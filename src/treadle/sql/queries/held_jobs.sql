select /* columns */
from treadle.find_claimed_jobs(%(worker_id)s)
