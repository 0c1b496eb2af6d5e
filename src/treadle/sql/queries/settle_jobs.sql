select id, status
from treadle.settle_jobs(
    %(worker_id)s,
    %(ids)s::uuid[],
    %(leases)s::bigint[],
    %(outcomes)s::varchar[],
    %(errors)s::text[],
    %(tracebacks)s::text[],
    %(delays)s::double precision[],
    %(seconds)s::double precision[],
    %(crash_limit)s
)
