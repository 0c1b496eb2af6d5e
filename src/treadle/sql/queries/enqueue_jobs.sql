select treadle.enqueue_jobs(
    %(job_type)s,
    %(data)s::text[],
    %(priority)s,
    %(queue)s,
    %(run_at)s,
    %(delay)s,
    %(keys)s::varchar[],
    %(max_attempts)s
)
