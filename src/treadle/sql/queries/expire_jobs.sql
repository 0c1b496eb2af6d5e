-- At how many jobs it has looked, and in how many seconds the next one expires.
select
    treadle.expire_jobs(%(limit)s),
    (
        select extract(epoch from min(entry.look_at) - clock_timestamp())::double precision
        from treadle.expiries as entry
        where entry.look_at > clock_timestamp()
    )
