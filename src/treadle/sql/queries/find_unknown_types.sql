-- Job types with due jobs that are none of %(known)s, and that no live worker serves. Lanes without a job are read too,
-- until a tick makes them idle, so their number is limited.
with known as materialized (
    select known.lane, known.start
    from treadle.safe_tick(pg_current_snapshot()) as safe
    cross join lateral treadle.lanes_to_search(safe) as known
    where (known.lane).job_type <> all (%(known)s::varchar[])
    limit 1000
)
select distinct (known.lane).job_type as job_type
from known
cross join lateral treadle.lane_head(known.lane, known.start) as head
where head.run_at <= clock_timestamp()
  and not exists (
    select
    from treadle.serving_workers((known.lane).queue, (known.lane).job_type, clock_timestamp())
)
order by job_type
