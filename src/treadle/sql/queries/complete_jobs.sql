select treadle.complete_jobs(%(ids)s::uuid[], %(leases)s::bigint[], %(worker_ids)s::varchar[], %(results)s::text[])
