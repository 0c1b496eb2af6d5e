select id, job_type, status
from treadle.recover_worker(
    %(worker_id)s,
    %(reason)s,
    %(crashed)s::uuid[],
    %(overdue)s::uuid[],
    %(crash_limit)s,
    %(keep)s
)
