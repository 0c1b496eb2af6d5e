-- One JSON text per line (JSON contains no line breaks): adapting a list of texts takes the driver 50 times as long.
select treadle.enqueue_jobs(
    %(job_type)s,
    pg_catalog.string_to_array(%(data)s, E'\n'),
    %(priority)s,
    %(queue)s,
    %(run_at)s,
    %(delay)s,
    %(keys)s::varchar[],
    %(max_attempts)s,
    %(partitions)s::text[],
    %(headers)s::pg_catalog.jsonb
)
