-- The live workers with a lease that would claim a job of this type in this queue. A worker has one number of slots for
-- jobs on its event loop and threads, and another for jobs in child processes: "together" are the job types that share
-- slots with this one, "places" is how many there are. A worker whose concurrency was set to 0 has none of either.
create or replace function treadle.serving_workers(p_queue varchar, p_job_type varchar, p_now timestamptz)
returns table (worker_id varchar, queues varchar[], together varchar[], places int)
language sql stable
as $$
    select
        worker.worker_id,
        worker.queues,
        case
            when cardinality(worker.process_types) > 0 then array(
                select known.job_type
                from unnest(worker.job_types) as known (job_type)
                where (known.job_type = any (worker.process_types)) = (p_job_type = any (worker.process_types))
            )
            else worker.job_types
        end,
        case
            when p_job_type = any (worker.process_types) and changed.concurrency is distinct from 0 then worker.children
            else coalesce(changed.concurrency, worker.concurrency)
        end
    from treadle.workers as worker
    left join treadle.worker_concurrency as changed on changed.worker_id = worker.worker_id
    where worker.lost_at is null
      and worker.seen_at >= p_now - worker.lease
      and p_job_type = any (worker.job_types)
      and (worker.queues is null or p_queue = any (worker.queues))
$$;
