-- The names of job types, queues and workers, for suggestions. A lane exists for each partition, so the next type and
-- queue are looked up along idx_lanes_type, one step each. Types without a lane are found in the newest rows of
-- minutes.
with recursive listed (job_type, queue) as (
    select ''::varchar, ''::varchar
    union all
    select following.job_type, following.queue
    from listed
    cross join lateral (
        select lane.job_type, lane.queue
        from treadle.lanes as lane
        where (lane.job_type, lane.queue) > (listed.job_type, listed.queue)
        order by lane.job_type, lane.queue
        limit 1
    ) as following
),
known as materialized (
    (select listed.job_type, listed.queue from listed where listed.job_type <> '' limit %(read)s)
    union all
    (select recent.job_type, recent.queue from treadle.minutes as recent order by recent.minute desc limit %(read)s)
    union all
    (select each.job_type, each.queue from treadle.schedules as each order by each.name limit %(read)s)
),
worker as materialized (
    select each.worker_id, each.job_types, each.queues
    from treadle.workers as each
    order by each.lost_at is not null, each.seen_at desc
    limit %(read)s
),
found as (
    select 'type' as kind, known.job_type as name from known
    union
    select 'type', served.name from worker cross join lateral unnest(worker.job_types) as served (name)
    union
    select 'queue', known.queue from known
    union
    select 'queue', served.name from worker cross join lateral unnest(worker.queues) as served (name)
    union
    select 'worker', worker.worker_id from worker
),
numbered as (
    select found.kind, found.name, row_number() over (partition by found.kind order by found.name) as nth
    from found
    where %(search)s::text is null
       or strpos(lower(found.name), lower(%(search)s)) > 0
)
select numbered.kind, numbered.name
from numbered
where numbered.nth <= %(limit)s
order by numbered.kind, numbered.nth
