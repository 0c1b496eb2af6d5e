-- Ends of the last %(window)s seconds, added up over %(step)s seconds each; and up to when they were counted.
select
    clock_timestamp(),
    meter.reached,
    -- Once for each of half a million rows: extract(epoch) would count in numeric, and cost more than all the rest.
    date_bin(make_interval(secs => %(step)s), minutes.minute, 'epoch'::timestamptz) as at,
    coalesce(sum(minutes.completed), 0)::bigint,
    coalesce(sum(minutes.failed), 0)::bigint,
    coalesce(sum(minutes.cancelled), 0)::bigint,
    coalesce(sum(minutes.errors), 0)::bigint,
    sum(minutes.waited),
    max(minutes.waited_most),
    sum(minutes.ran),
    max(minutes.ran_most)
-- One row, also for the planner: it would compile for minutes what it believes to be millions.
from (select reached from treadle.meter limit 1) as meter
left join treadle.minutes as minutes
    -- Not by clock_timestamp(), which may change from row to row: no index serves that.
    on minutes.minute >= date_bin(
        make_interval(secs => %(step)s),
        statement_timestamp() - make_interval(secs => %(window)s),
        'epoch'::timestamptz
    )
    and (%(job_type)s::varchar is null or minutes.job_type = %(job_type)s::varchar)
group by meter.reached, at
order by at
