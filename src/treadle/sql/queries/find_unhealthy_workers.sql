-- Workers that are stuck, have stopped child processes or send no heartbeats, and those that were just lost. The table
-- of jobs is named so that the query fails while that table is locked.
select
    worker.worker_id,
    worker.lost_at is not null,
    worker.stuck_kind,
    worker.stopped_children::text
from treadle.workers as worker
where (
    worker.lost_at > clock_timestamp() - interval '1 minute'
    or worker.lost_at is null and (
        worker.stuck_since is not null
        or worker.stopped_children is not null
        or worker.seen_at < clock_timestamp() - worker.lease
    )
)
and not exists (select from treadle.jobs where false)
