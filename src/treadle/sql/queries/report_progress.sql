select changed, case when not changed then (select status from treadle.jobs where id = %(id)s) end
from treadle.report_progress(%(id)s, %(progress)s, %(stage)s, %(lease)s, %(worker_id)s) as changed
