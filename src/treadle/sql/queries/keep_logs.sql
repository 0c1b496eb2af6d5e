select treadle.keep_logs(
    %(worker_id)s,
    %(ids)s::uuid[],
    %(leases)s::bigint[],
    %(owners)s::int[],
    %(sequences)s::int[],
    %(levels)s::int[],
    %(loggers)s::text[],
    %(messages)b::text[],
    %(ages)s::double precision[],
    %(head)s,
    %(tail)s
)
