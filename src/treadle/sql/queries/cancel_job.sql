select changed, case when not changed then (select status from treadle.jobs where id = %(id)s) end
from treadle.cancel_job(%(id)s, %(reason)s, %(lease)s, %(worker_id)s) as changed
