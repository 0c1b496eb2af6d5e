select treadle.recover_stale_jobs(%(timeout)s)
