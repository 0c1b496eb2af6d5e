select
    case when job_type operator(pg_catalog.<>) '' then job_type end,
    case when queue operator(pg_catalog.<>) '' then queue end,
    paused_at,
    paused_by,
    reason
from treadle.pauses
order by job_type, queue
