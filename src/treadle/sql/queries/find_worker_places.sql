-- How many jobs the live workers run at once in child processes, besides their concurrency.
select worker.worker_id, worker.children, worker.process_types
from treadle.workers as worker
where worker.lost_at is null
  and worker.children is not null
limit 1000
