select treadle.heartbeat(%(worker_id)s)
