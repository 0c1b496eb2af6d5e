select treadle.register_worker(
    %(worker_id)s,
    %(lease)s,
    %(job_types)s::varchar[],
    %(queues)s::varchar[],
    %(concurrency)s,
    %(host)s,
    %(pid)s,
    %(version)s,
    %(process_types)s::varchar[],
    %(children)s
)
