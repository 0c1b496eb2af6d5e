-- Limits that have room although lanes with due jobs have waited for them for some time. Ticks open such lanes within
-- seconds. The version of its holders changes when a job is claimed under the limit, the number of lanes falls while
-- ticks open them.
with old as materialized (
    select listed.name, listed.key
    from treadle.waiting_limits(null, 1000) as listed
    where listed.changed_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
    order by listed.changed_at
    limit 100
)
select
    old.name, old.key, coalesce(holders.version, 0), waiting.lanes,
    extract(epoch from clock_timestamp() - waiting.since)::double precision as seconds,
    oldest.job
from old
cross join treadle.safe_tick(pg_current_snapshot()) as safe
cross join lateral (
    select count(*) as lanes, min(lane.changed_at) as since
    from (
        select lane.changed_at
        from treadle.lanes as lane
        where lane.limit_name = old.name
          and lane.limit_key = old.key
        limit 1001
    ) as lane
) as waiting
cross join lateral (
    select head.id::text as job
    from (
        select row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane as lane
        from treadle.lanes as lane
        where lane.limit_name = old.name
          and lane.limit_key = old.key
          and lane.changed_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
        limit 20
    ) as known
    left join lateral treadle.safe_floor(known.lane, safe) as bound on true
    cross join lateral treadle.lane_head(known.lane, coalesce(bound.floor, '-infinity')) as head
    where head.run_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
    order by head.run_at
    limit 1
) as oldest
left join lateral treadle.limit_room(old.name, old.key, 1, clock_timestamp()) as holders on true
where waiting.lanes <= 1000
  and coalesce(holders.room > 0, true) -- as has_room()
order by seconds desc
