-- The lanes with due jobs, those of different partitions as one.
with known as materialized (
    select known.lane, known.start
    from treadle.safe_tick(pg_current_snapshot()) as safe
    cross join lateral treadle.lanes_to_search(safe) as known
    limit 2000
)
select
    (known.lane).queue,
    (known.lane).job_type,
    (known.lane).priority,
    -- An INSERT by hand can set any time, even -infinity.
    extract(epoch from clock_timestamp() - greatest(min(head.run_at), '0001-01-02'))::double precision as due
from known
cross join lateral treadle.lane_head(known.lane, known.start) as head
where head.run_at <= clock_timestamp()
group by (known.lane).queue, (known.lane).job_type, (known.lane).priority
order by due desc
