-- Whether another live worker that serves one of these job types and queues has a free child process: for a worker that
-- has claimed jobs that must run in one (decision 25), and has none. It offers them to the others only then.
create or replace function treadle.is_child_free_elsewhere(
    p_worker_id varchar,
    p_job_types varchar[],
    p_queues varchar[]
) returns boolean
language sql stable
set enable_seqscan = off
as $$
    select exists (
        select
        from treadle.workers as worker
        left join treadle.worker_concurrency as changed on changed.worker_id = worker.worker_id
        where worker.worker_id <> p_worker_id
          and worker.lost_at is null
          and worker.seen_at >= clock_timestamp() - worker.lease
          and worker.stuck_since is null
          and worker.job_types && p_job_types
          and (worker.queues is null or worker.queues && p_queues)
          and coalesce(changed.concurrency, worker.concurrency) > 0
          and worker.children > (
                select count(*)
                from (
                    -- All that it has claimed: the planner does not know that they are few.
                    select job.job_type, job.crashes
                    from treadle.jobs as job
                    where job.worker_id = worker.worker_id
                      and job.status in ('claimed', 'running')
                    offset 0
                ) as claimed
                where claimed.crashes > 0
                   or claimed.job_type = any (worker.process_types)
          )
    )
$$;
