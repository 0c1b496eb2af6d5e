-- Attempts that completed and that failed, by type: in the last seconds, and in the time before. The newest minutes
-- first, so that the number of rows is bounded however many types and queues there are.
select
    counted.job_type,
    sum(counted.completed) filter (where counted.is_recent)::bigint,
    sum(counted.errors) filter (where counted.is_recent)::bigint,
    sum(counted.failed) filter (where counted.is_recent)::bigint,
    coalesce(sum(counted.completed) filter (where not counted.is_recent), 0)::bigint,
    coalesce(sum(counted.errors) filter (where not counted.is_recent), 0)::bigint
from (
    select
        minute.job_type, minute.completed, minute.errors, minute.failed,
        minute.minute > clock_timestamp() - make_interval(secs => %(recent)s) as is_recent
    from treadle.minutes as minute
    where minute.minute > clock_timestamp() - make_interval(secs => %(past)s)
      and minute.minute <= clock_timestamp()
    order by minute.minute desc
    limit 50000
) as counted
group by counted.job_type
having sum(counted.errors) filter (where counted.is_recent) > 0
order by counted.job_type
