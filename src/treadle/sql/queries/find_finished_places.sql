-- After finished_spans.sql: the jobs that finished in the last %(window)s seconds, by type and queue.
select
    finished.job_type,
    finished.queue,
    /* sums */
from finished
group by finished.job_type, finished.queue
