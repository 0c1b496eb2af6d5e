-- A part of the queries for facts: the live workers.
select
    json_agg(
        json_build_array(
            known.worker_id, known.by_hand,
            -- There may be thousands of types; they matter only if no worker serves the job.
            case when not exists (select from known as other where other.serves) then known.job_types end,
            known.queues, known.serves, known.places, known.busy, extract(epoch from known.seen_at),
            extract(epoch from known.stuck_since), known.stuck_kind, known.stuck_job, known.stuck_job_type,
            left(known.stuck_stack, 2000), known.host, known.pid
        )
    )::text
from known
