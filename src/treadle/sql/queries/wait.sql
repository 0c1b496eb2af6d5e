select pg_sleep(%(seconds)s)
