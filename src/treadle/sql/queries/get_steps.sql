select position, name, result::text
from treadle.steps
where job_id = %(id)s
order by position
