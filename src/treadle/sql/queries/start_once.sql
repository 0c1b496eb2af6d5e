-- Before an attempt that must not be repeated. lock_timeout: how long to wait for a row that another transaction has
-- locked.
select pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true) is not null
    and treadle.start_job(%(id)s, %(lease)s, %(worker_id)s, true)
