select status, queue, job_type, priority, jobs, exact
from treadle.sample_jobs()
