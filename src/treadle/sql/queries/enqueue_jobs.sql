-- One JSON text a line (JSON has no line breaks of its own): a list of texts costs the driver fifty times as much.
select treadle.enqueue_jobs(
    %(job_type)s,
    string_to_array(%(data)s, E'\n'),
    %(priority)s,
    %(queue)s,
    %(run_at)s,
    %(delay)s,
    %(keys)s::varchar[],
    %(max_attempts)s
)
