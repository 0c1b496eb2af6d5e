select pg_catalog.cardinality(
    treadle.lock_claimed(%(worker_id)s, array[%(id)s::uuid], array[%(lease)s::bigint])
) operator(pg_catalog.=) 1
