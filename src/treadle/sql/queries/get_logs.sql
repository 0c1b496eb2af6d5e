select number, logged_at, attempt, level, logger, message
from treadle.logs
where job_id = %(id)s
  and number > %(after)s
order by number
