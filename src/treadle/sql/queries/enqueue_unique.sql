select treadle.enqueue_unique(
    %(job_type)s,
    %(unique)s,
    %(data)s::jsonb,
    %(priority)s,
    %(queue)s,
    %(run_at)s,
    %(delay)s,
    %(key)s,
    %(max_attempts)s
)
