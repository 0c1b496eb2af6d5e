-- Renamed in version 0.2 to find_claimed_jobs(). Processes of version 0.1 call it by this name during a rolling upgrade.
-- May be dropped in version 0.3.
create or replace function treadle.held_jobs(p_worker_id varchar) returns setof treadle.jobs
language sql
as $$
    select * from treadle.find_claimed_jobs(p_worker_id)
$$;

comment on function treadle.held_jobs(varchar) is 'Deprecated: use find_claimed_jobs(). Dropped in version 0.3.';
