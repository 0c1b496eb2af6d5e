-- A part of the queries for facts: the pauses of a job, or of the jobs of a schedule.
select
    json_agg(
        json_build_array(
            nullif(pause.job_type, ''), nullif(pause.queue, ''), extract(epoch from pause.paused_at), pause.paused_by,
            left(pause.reason, 500)
        )
        -- The most general first.
        order by pause.job_type, pause.queue
    )::text
from treadle.pauses_of(job.job_type, job.queue) as pause
