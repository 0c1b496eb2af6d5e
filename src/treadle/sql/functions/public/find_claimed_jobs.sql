-- The jobs that a worker has claimed.
create or replace function treadle.find_claimed_jobs(p_worker_id varchar) returns setof treadle.jobs
language plpgsql
as $$
begin
    return query
    select job.*
    from treadle.jobs as job
    where job.worker_id = p_worker_id
      and job.status in ('claimed', 'running');
end
$$;
