-- What a graph shows of the job node.id: a part of the queries that find nodes. It is read by its id, one by one;
-- offset 0 keeps the planner from joining in another way. Times are numbers, which are read ten times as fast.
select
    known.job_type,
    treadle.outcome_of(known.status, known.flags),
    known.holds & 6 <> 0, -- blocked by jobs or a signal
    case when known.status = 'completed' then 100 else known.progress end,
    case when known.created_at between '0001-01-02' and '9999-12-30' then extract(epoch from known.created_at)::float8 end,
    case when known.started_at between '0001-01-02' and '9999-12-30' then extract(epoch from known.started_at)::float8 end,
    case when known.finished_at between '0001-01-02' and '9999-12-30' then extract(epoch from known.finished_at)::float8 end,
    case when known.job_type = 'workflow' then left(known.data ->> 'name', 200) end
from treadle.jobs as known
where known.id = node.id
offset 0
