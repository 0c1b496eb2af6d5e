-- The first unfinished job with this key: one that runs, else the oldest that waits for its turn, else the oldest that
-- is blocked. One step in idx_jobs_key. The planner inlines this function.
create or replace function treadle.key_head(p_key varchar)
returns table (id uuid, job_type varchar, status varchar, holds smallint, attempts int, max_attempts int)
language sql stable
as $$
    select job.id, job.job_type, job.status, job.holds, job.attempts, job.max_attempts
    from treadle.jobs as job
    where job.key = p_key
      and job.status in ('pending', 'claimed', 'running')
    order by treadle.key_rank(job.status, job.holds), job.id
    limit 1
$$;
