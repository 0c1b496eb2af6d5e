-- Notes which child processes of a worker were stopped, or are still starting, with their jobs and for how many
-- seconds; empty arrays: none. It takes no jobs away. The process that renews the worker's lease calls it whenever that
-- has changed, and must not wait for a lock.
create or replace function treadle.report_stopped_children(
    p_worker_id varchar,
    p_processes int[],
    p_jobs uuid[],
    p_seconds double precision[],
    p_starting boolean[]
) returns void
language sql
set enable_seqscan = off
set lock_timeout = '100ms'
as $$
    update treadle.workers as worker
    set stopped_children = (
            select jsonb_agg(
                jsonb_build_object(
                    'process', child.process,
                    'job_id', child.job_id,
                    'job_type', (select job.job_type from treadle.jobs as job where job.id = child.job_id),
                    'since', clock_timestamp() - make_interval(secs => child.seconds),
                    'starting', child.starting
                )
                order by child.seconds desc, child.process
            )
            from unnest(p_processes, p_jobs, p_seconds, p_starting) as child (process, job_id, seconds, starting)
        )
    where worker.worker_id = p_worker_id;
$$;
