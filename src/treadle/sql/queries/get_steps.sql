select position, name, result::text
from treadle.steps
where job_id operator(pg_catalog.=) %(id)s
order by position
