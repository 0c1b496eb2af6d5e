-- The groups of errors that match, with the failures of each of the last hours. The table has some hundred rows for
-- each job type at most, whatever the number of jobs.
with matching as materialized (
    select known.*, treadle.is_muted(known.muted_at, known.muted_until) as muted
    from treadle.error_groups as known
    where (%(id)s::int is null or known.id = %(id)s)
      and (%(job_type)s::varchar is null or known.job_type = %(job_type)s)
      and (%(queue)s::varchar is null or %(queue)s = any (known.queues))
),
shown as (
    select
        matching.*,
        row_number() over (
            order by
                case when %(order)s = 'failures' then (
                    select sum(hours.failures)
                    from treadle.error_group_hours as hours
                    where hours.group_id = matching.id
                      and hours.hour > clock_timestamp() - %(hours)s * interval '1 hour'
                      and matching.last_seen > clock_timestamp() - %(hours)s * interval '1 hour'
                ) end desc nulls last,
                case when %(order)s = 'first_seen' then matching.first_seen end desc nulls last,
                matching.last_seen desc,
                matching.id desc
        ) as nth
    from matching
    where %(muted)s::boolean is null
       or matching.muted = %(muted)s
    order by nth
    limit %(limit)s
)
select
    clock_timestamp(),
    (select count(*) from matching where matching.muted),
    shown.id,
    shown.job_type,
    shown.exception,
    shown.message,
    shown.failures,
    shown.first_seen,
    shown.last_seen,
    shown.queues,
    array(
        select version.version
        from treadle.error_group_versions as version
        where version.group_id = shown.id
        order by version.last_seen desc, version.version desc
        limit 5
    ),
    (
        select array_agg(coalesce(hours.failures, 0) order by hour.at)
        from generate_series(
            date_trunc('hour', clock_timestamp(), 'UTC') - (%(hours)s - 1) * interval '1 hour',
            date_trunc('hour', clock_timestamp(), 'UTC'),
            interval '1 hour'
        ) as hour (at)
        left join treadle.error_group_hours as hours
          on hours.group_id = shown.id
         and hours.hour = hour.at
    ),
    shown.muted,
    shown.muted_at,
    shown.muted_by,
    shown.muted_reason,
    shown.muted_until,
    shown.muted_versions is not null
from (values (1)) as always (one)
left join shown on true
order by shown.nth
