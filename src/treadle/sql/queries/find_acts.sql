-- The newest acts first, each with the number of its jobs (counted up to 10,001) and the first of them. At most 5,000
-- acts are examined; reached is the last of them.
with begun as materialized (
    select
        entry.id, entry.at, entry.actor, entry.action, entry.job_id, entry.job_type, entry.queue, entry.reason,
        entry.details, entry.act
    from treadle.audit as entry
    where entry.begins
      and entry.id < coalesce(%(before)s::bigint, 9223372036854775807)
    order by entry.id desc
    limit 5000
),
found as materialized (
    select begun.*
    from begun
    where (%(actor)s::text is null or strpos(lower(begun.actor), lower(%(actor)s::text)) > 0)
      and (%(action)s::text is null or begun.action = %(action)s::text)
      and (%(since)s::timestamptz is null or begun.at >= %(since)s::timestamptz)
      and (%(until)s::timestamptz is null or begun.at < %(until)s::timestamptz)
      and (
            %(job_type)s::text is null
            or begun.job_type = %(job_type)s::text
            -- One that changed jobs of several types: among the first of them.
            or exists (
                select
                from (
                    select entry.job_type
                    from treadle.audit as entry
                    where entry.act = begun.act
                    order by entry.id
                    limit 1000
                ) as changed
                where changed.job_type = %(job_type)s::text
            )
      )
    order by begun.id desc
    limit %(limit)s
)
select
    examined.reached, examined.number, found.id, found.at, found.actor, found.action, found.job_id, found.job_type,
    found.queue, found.reason, found.details::text, found.act, jobs.number, first.jobs
from (select min(begun.id) as reached, count(*) as number from begun) as examined
left join found on true
left join lateral (
    select count(*) as number
    from (
        select
        from treadle.audit as entry
        where entry.act = found.act
        limit 10001
    ) as counted
) as jobs on true
left join lateral (
    select array_agg(entry.job_id::text || ' ' || coalesce(entry.job_type, '') order by entry.id) as jobs
    from (
        select entry.id, entry.job_id, entry.job_type
        from treadle.audit as entry
        where entry.act = found.act
        order by entry.id
        limit 20
    ) as entry
) as first on true
order by found.id desc
