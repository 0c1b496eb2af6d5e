-- After finished_spans.sql: the slowest completed job of each span, the slowest first.
select found.id, found.at, found.job_type, found.queue, found.ran, job.id is not null
from (
    select
        finished.slowest_id as id, max(finished.at) as at, finished.job_type, finished.queue,
        max(finished.ran_most) as ran
    from finished
    where finished.slowest_id is not null
    group by finished.slowest_id, finished.job_type, finished.queue
    order by ran desc, id
    limit %(limit)s
) as found
-- One by one, by id.
left join lateral (
    select known.id
    from treadle.jobs as known
    where known.id = found.id
    offset 0
) as job on true
order by found.ran desc, found.id
