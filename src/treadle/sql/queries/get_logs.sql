select number, logged_at, attempt, level, logger, message
from treadle.logs
where job_id operator(pg_catalog.=) %(id)s
  and number operator(pg_catalog.>) %(after)s
order by number
