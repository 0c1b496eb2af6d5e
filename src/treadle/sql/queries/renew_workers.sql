select treadle.renew_workers(%(worker_ids)s::varchar[], %(lease)s)
