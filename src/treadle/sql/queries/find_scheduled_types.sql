-- The job types and queues of the 2,000 schedules that are due next.
select
    upcoming.job_type, upcoming.queue, count(*)::int, min(upcoming.name),
    extract(epoch from min(upcoming.next_at) - now())::double precision as seconds
from (
    select known.name, known.job_type, known.queue, greatest(known.next_at, '0001-01-02') as next_at
    from treadle.schedules as known
    where known.paused_at is null
      and known.retired_at is null
      and known.next_at < 'infinity'
    order by known.next_at nulls first
    limit 2000
) as upcoming
group by upcoming.job_type, upcoming.queue
order by seconds, upcoming.job_type, upcoming.queue
