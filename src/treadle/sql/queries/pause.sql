select treadle.pause(%(job_type)s, %(queue)s, %(actor)s, %(reason)s)
