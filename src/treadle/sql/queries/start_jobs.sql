select treadle.start_jobs(
    %(worker_id)s,
    %(ids)s::uuid[],
    %(leases)s::bigint[],
    %(seconds)s::double precision[],
    %(progress)s::int[],
    %(stages)s::varchar[],
    %(paces)s::text[]
)
