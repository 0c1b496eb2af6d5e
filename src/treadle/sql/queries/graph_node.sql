-- What a graph shows of the job node.id: a part of the queries that find nodes. It is read by its id, one by one; offset 0 keeps the
-- planner from joining in another way. Times are numbers, which are read ten times as fast.
select
    known.job_type,
    case when known.status = 'cancelled' and known.flags & treadle.flag_skipped() <> 0 then 'skipped' else known.status end as status,
    known.holds & 6 <> 0 as is_blocked,
    case when known.status = 'completed' then 100 else known.progress end as progress,
    case when known.created_at between '0001-01-02' and '9999-12-30' then extract(epoch from known.created_at)::float8 end as created,
    case when known.started_at between '0001-01-02' and '9999-12-30' then extract(epoch from known.started_at)::float8 end as started,
    case when known.finished_at between '0001-01-02' and '9999-12-30' then extract(epoch from known.finished_at)::float8 end as finished,
    case when known.job_type = 'workflow' then left(known.data ->> 'name', 200) end as title
from treadle.jobs as known
where known.id = node.id
offset 0
