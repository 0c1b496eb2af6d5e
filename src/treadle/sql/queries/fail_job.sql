select changed, case when not changed then (select status from treadle.jobs where id = %(id)s) end
from treadle.fail_job(%(id)s, %(error)s, %(delay)s, %(final)s, %(lease)s, %(worker_id)s) as changed
