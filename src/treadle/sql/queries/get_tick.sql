-- Seconds since the last tick (null: never), and since a claim by a worker that no tick followed for so many seconds. Workers
-- make a tick when they claim, and none when there is nothing to claim.
with tick as materialized (
    select to_timestamp(nullif(clock.last_value, 0) / 1000000.0) as at
    from treadle.tick_clock as clock
),
claim as materialized (
    (
        select job.worker_id, job.claimed_at
        from treadle.jobs as job
        where job.status = 'completed'
          and job.finished_at < clock_timestamp() - make_interval(secs => %(seconds)s)
        order by job.finished_at desc
        limit 100
    )
    union all
    (
        select job.worker_id, job.claimed_at
        from treadle.jobs as job
        where job.status in ('claimed', 'running')
        limit 1000
    )
)
select
    (select extract(epoch from clock_timestamp() - tick.at)::double precision from tick),
    (
        select extract(epoch from clock_timestamp() - max(claim.claimed_at))::double precision
        from claim
        join treadle.workers as worker on worker.worker_id = claim.worker_id
        where worker.lease is not null
          and claim.claimed_at < clock_timestamp() - make_interval(secs => %(seconds)s)
          and claim.claimed_at > coalesce((select tick.at from tick), '-infinity')
    )
