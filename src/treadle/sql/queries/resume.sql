select treadle.resume(%(job_type)s, %(queue)s, %(actor)s, %(reason)s)
