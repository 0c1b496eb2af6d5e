select changed, case when not changed then (select status from treadle.jobs where id = %(id)s) end
from treadle.retry_job(%(id)s) as changed
