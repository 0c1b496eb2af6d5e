-- How many attempts of each job type failed within the last %(seconds)s seconds that belong to muted groups. Of each
-- group the latest 100,000 are counted.
select known.job_type, sum(failed.number)
from treadle.error_groups as known
cross join lateral (
    select count(*) as number
    from (
        select
        from treadle.grouped_errors as counted
        where counted.group_id = known.id
          and counted.failed_at > clock_timestamp() - %(seconds)s * interval '1 second'
        limit 100000
    ) as latest
) as failed
where treadle.is_muted(known.muted_at, known.muted_until)
  and known.last_seen > clock_timestamp() - %(seconds)s * interval '1 second'
  and failed.number > 0
group by known.job_type
