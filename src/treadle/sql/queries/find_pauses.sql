select nullif(job_type, ''), nullif(queue, ''), paused_at, paused_by, reason
from treadle.pauses
order by job_type, queue
