select changed, case when not changed then (select status from treadle.jobs where id = %(id)s) end
from treadle.start_job(%(id)s, %(lease)s, %(worker_id)s) as changed
