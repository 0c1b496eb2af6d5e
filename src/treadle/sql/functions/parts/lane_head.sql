-- The first of the claimable jobs of a lane that are due at p_start or later. The planner inlines this function.
create or replace function treadle.lane_head(p_lane treadle.lane, p_start timestamptz)
returns table (id uuid, run_at timestamptz)
language sql stable
as $$
    select job.id, job.run_at
    from treadle.lane_jobs(p_lane, p_start) as job
    order by job.run_at
    limit 1
$$;
