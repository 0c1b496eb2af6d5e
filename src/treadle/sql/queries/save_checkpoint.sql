select treadle.save_checkpoint(%(id)s, %(state)s::jsonb, %(lease)s, %(worker_id)s)
