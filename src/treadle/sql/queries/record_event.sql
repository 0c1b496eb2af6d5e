select changed, case when not changed then (select status from treadle.jobs where id = %(id)s) end
from treadle.record_event(%(id)s, %(name)s, %(data)s::jsonb, %(lease)s, %(worker_id)s) as changed
