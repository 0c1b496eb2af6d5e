select
    name, job_type, expression, timezone, clocks_forward, clocks_back, missed, overlap, priority, queue,
    nullif(next_at, 'infinity'), last_at, last_job, paused_at, retired_at, digest is not null, error
from treadle.schedules
where (%(name)s::varchar is null or name = %(name)s::varchar)
order by name
