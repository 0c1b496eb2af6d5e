-- A part of the queries for facts: the worker that was seen last.
select worker.worker_id, worker.seen_at
from treadle.workers as worker
where worker.lease is not null
order by worker.seen_at desc
limit 1
