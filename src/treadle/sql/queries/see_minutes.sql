-- Ends of the last %(window)s seconds, added up over %(step)s seconds each; and up to when they were counted.
select
    clock_timestamp(),
    meter.reached,
    to_timestamp(floor(extract(epoch from minutes.minute) / %(step)s) * %(step)s) as at,
    coalesce(sum(minutes.completed), 0)::bigint,
    coalesce(sum(minutes.failed), 0)::bigint,
    coalesce(sum(minutes.cancelled), 0)::bigint,
    coalesce(sum(minutes.errors), 0)::bigint,
    sum(minutes.waited),
    max(minutes.waited_most),
    sum(minutes.ran),
    max(minutes.ran_most)
from treadle.meter as meter
left join treadle.minutes as minutes
    on minutes.minute >= to_timestamp(
        floor(extract(epoch from clock_timestamp() - %(window)s * interval '1 second') / %(step)s) * %(step)s
    )
    and (%(job_type)s::varchar is null or minutes.job_type = %(job_type)s::varchar)
group by meter.reached, at
order by at
