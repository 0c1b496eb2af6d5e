select example_job, example_at, example_error, example_traceback
from treadle.error_groups
where id = %(id)s
  and example_job is not null
