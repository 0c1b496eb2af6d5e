-- Of the jobs that a worker has claimed, the oldest that it should have begun: it was claimed p_seconds ago or longer,
-- it is not among p_begun (those that the worker knows to have begun), and the worker has room for it. p_here of them
-- run in the worker itself, and p_in_children in child processes. The process that renews the worker's lease calls this while
-- the worker begins no jobs.
create or replace function treadle.find_unbegun(
    p_worker_id varchar,
    p_begun uuid[],
    p_here int,
    p_in_children int,
    p_seconds double precision
) returns table (id uuid, seconds double precision)
language sql stable
set enable_seqscan = off
as $$
    select claimed.id, extract(epoch from clock_timestamp() - claimed.claimed_at)
    from (
        -- All of them: the planner does not know that they are few.
        select job.id, job.job_type, job.crashes, job.claimed_at
        from treadle.jobs as job
        where job.worker_id = p_worker_id
          and job.status in ('claimed', 'running')
          and job.status = 'claimed'
        offset 0
    ) as claimed
    join treadle.workers as worker on worker.worker_id = p_worker_id
    left join treadle.worker_concurrency as changed on changed.worker_id = p_worker_id
    where claimed.claimed_at <= clock_timestamp() - make_interval(secs => p_seconds)
      and claimed.id <> all (p_begun)
      and case
            when claimed.job_type = any (worker.process_types) or claimed.crashes > 0
            then p_in_children < worker.children and coalesce(changed.concurrency, worker.concurrency) > 0
            else p_here < coalesce(changed.concurrency, worker.concurrency)
          end
    order by claimed.claimed_at, claimed.id
    limit 1
$$;
