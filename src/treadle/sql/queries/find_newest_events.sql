select event.job_id, event.number, event.job_type, event.name, event.data::text, event.happened_at, event.attempt
from unnest(%(ids)s::uuid[], %(after)s::int[]) as watched (job_id, number)
cross join lateral (
    select *
    from treadle.events
    where job_id = watched.job_id
      and number > watched.number
    order by number desc
    limit %(limit)s
) as event
order by event.happened_at, event.job_id, event.number
