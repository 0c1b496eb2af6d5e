select changed, case when not changed then (select status from treadle.jobs where id = %(id)s) end
from treadle.complete_job(%(id)s, %(result)s::jsonb, %(lease)s, %(worker_id)s) as changed
