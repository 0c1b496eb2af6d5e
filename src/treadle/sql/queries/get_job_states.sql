select id, status, lease, events_count, progress, current_stage, pace::text, started_at
from treadle.jobs
where id operator(pg_catalog.=) any (%(ids)s::uuid[])
