select id, status, lease, events_count, progress, current_stage, pace::text, started_at
from treadle.jobs
where id = any (%(ids)s::uuid[])
