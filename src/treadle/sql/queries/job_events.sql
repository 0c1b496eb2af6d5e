select lease, phase, number, job_type, name, data::text, at, attempt
from treadle.job_events(%(id)s, %(number)s, %(lease)s, %(phase)s, %(limit)s)
