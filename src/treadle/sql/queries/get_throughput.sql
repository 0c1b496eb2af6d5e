-- Finished jobs of the last %(window)s seconds, summed over %(step)s seconds each; and up to when they are counted.
select
    clock_timestamp(),
    meter.reached,
    -- This runs for each of half a million rows: extract(epoch) computes in numeric, and would cost more than the rest.
    date_bin(make_interval(secs => %(step)s), minutes.minute, 'epoch'::timestamptz) as at,
    coalesce(sum(minutes.completed), 0)::bigint,
    coalesce(sum(minutes.failed), 0)::bigint,
    coalesce(sum(minutes.cancelled), 0)::bigint,
    coalesce(sum(minutes.errors), 0)::bigint,
    sum(minutes.waited),
    max(minutes.waited_most),
    sum(minutes.ran),
    max(minutes.ran_most)
-- The limit tells the planner that there is one row: it would expect millions and spend its time on JIT.
from (select reached from treadle.meter limit 1) as meter
left join treadle.minutes as minutes
    -- Not clock_timestamp(), which is volatile: no index could be used.
    on minutes.minute >= date_bin(
        make_interval(secs => %(step)s),
        statement_timestamp() - make_interval(secs => %(window)s),
        'epoch'::timestamptz
    )
    and (%(job_type)s::varchar is null or minutes.job_type = %(job_type)s::varchar)
group by meter.reached, at
order by at
