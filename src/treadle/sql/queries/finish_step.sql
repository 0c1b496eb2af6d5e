select treadle.finish_step(%(id)s, %(position)s, %(name)s, %(result)s::jsonb, %(lease)s, %(worker_id)s)
