-- The jobs that finished in the last %(window)s seconds, summed over steps of %(step)s seconds, and up to when they are
-- counted.
select
    clock_timestamp(),
    meter.reached,
    -- Computed for up to 500,000 rows: extract(epoch) returns numeric and would cost more than the rest of the query.
    date_bin(make_interval(secs => %(step)s), minutes.minute, 'epoch'::timestamptz) as at,
    coalesce(sum(minutes.completed), 0)::bigint,
    coalesce(sum(minutes.failed), 0)::bigint,
    coalesce(sum(minutes.cancelled), 0)::bigint,
    coalesce(sum(minutes.errors), 0)::bigint,
    sum(minutes.waited),
    max(minutes.waited_most),
    sum(minutes.ran),
    max(minutes.ran_most)
-- The limit tells the planner that this is one row: otherwise it expects millions of rows and compiles the query (JIT).
from (select reached from treadle.meter limit 1) as meter
left join treadle.minutes as minutes
    -- Not clock_timestamp(): it is volatile, and no index can be used for it.
    on minutes.minute >= date_bin(
        make_interval(secs => %(step)s),
        statement_timestamp() - make_interval(secs => %(window)s),
        'epoch'::timestamptz
    )
    and (%(job_type)s::varchar is null or minutes.job_type = %(job_type)s::varchar)
group by meter.reached, at
order by at
