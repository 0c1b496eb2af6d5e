select cardinality(treadle.lock_claimed(%(worker_id)s, array[%(id)s::uuid], array[%(lease)s::bigint])) = 1
