select treadle.next_due(%(job_types)s::varchar[], %(queues)s::varchar[], %(sure)s)
