select treadle.rest(%(job_types)s::varchar[], %(queues)s::varchar[], %(sure)s)
