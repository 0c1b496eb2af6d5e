select treadle.record_events(
    %(worker_id)s,
    %(ids)s::uuid[],
    %(leases)s::bigint[],
    %(owners)s::int[],
    %(sequences)s::int[],
    %(names)s::varchar[],
    %(data)b::text[],
    %(ages)s::double precision[]
)
