-- For a single job, as most are that do not wait: a third cheaper than complete_jobs.sql. The id if it was accepted.
-- lock_timeout: how long to wait for a row that another transaction has locked.
select case
    when pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true) is not null
        and treadle.complete_job(%(id)s, %(result)s, %(lease)s, %(worker_id)s, %(seconds)s)
        then %(id)s
end
