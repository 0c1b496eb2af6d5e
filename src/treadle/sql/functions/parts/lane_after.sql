-- The next lane with claimable jobs after p_lane (null: the first), in the order of idx_jobs_claimable, and the time
-- of its first job; null after the last.
create or replace function treadle.lane_after(
    p_lane treadle.lane,
    p_lockers xid[], -- rows that these transactions have locked do not count
    out queue varchar,
    out job_type varchar,
    out priority int,
    out partition varchar,
    out run_at timestamptz
)
language plpgsql stable
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
begin
    select job.queue, job.job_type, job.priority, job.partition, job.run_at
    into queue, job_type, priority, partition, run_at
    from treadle.jobs as job
    where job.queue = p_lane.queue
      and job.job_type = p_lane.job_type
      and job.priority = p_lane.priority
      and job.partition > p_lane.partition
      and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
      and not job.xmax = any (p_lockers)
    order by job.partition, job.run_at
    limit 1;
    if found then
        return;
    end if;

    select job.queue, job.job_type, job.priority, job.partition, job.run_at
    into queue, job_type, priority, partition, run_at
    from treadle.jobs as job
    where job.queue = p_lane.queue
      and job.job_type = p_lane.job_type
      and job.priority < p_lane.priority
      and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
      and not job.xmax = any (p_lockers)
    order by job.priority desc, job.partition, job.run_at
    limit 1;
    if found then
        return;
    end if;

    select job.queue, job.job_type, job.priority, job.partition, job.run_at
    into queue, job_type, priority, partition, run_at
    from treadle.jobs as job
    where job.queue = p_lane.queue
      and job.job_type > p_lane.job_type
      and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
      and not job.xmax = any (p_lockers)
    order by job.job_type, job.priority desc, job.partition, job.run_at
    limit 1;
    if found then
        return;
    end if;

    select job.queue, job.job_type, job.priority, job.partition, job.run_at
    into queue, job_type, priority, partition, run_at
    from treadle.jobs as job
    where job.queue > coalesce(p_lane.queue, '')
      and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
      and not job.xmax = any (p_lockers)
    order by job.queue, job.job_type, job.priority desc, job.partition, job.run_at
    limit 1;
end
$$;
