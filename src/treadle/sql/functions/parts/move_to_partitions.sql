-- After a limit was added: gives jobs of a type that have no partition the one that their limits need, 10,000 at
-- most. Returns how many. Those that are left count as jobs without a value, until this is called again (every
-- minute, if the limit is declared in code) or they are claimed.
create or replace function treadle.move_to_partitions(p_job_type varchar) returns int
language plpgsql
as $$
declare
    c_jobs constant int := 10000;
begin
    return treadle.set_partitions(array(
        select job.id
        from (
            select distinct lane.queue, lane.priority
            from treadle.lanes as lane
            where lane.job_type = p_job_type
              and lane.partition = ''
        ) as lane
        cross join lateral (
            select job.id
            from treadle.lane_jobs(row(lane.queue, p_job_type, lane.priority, '')::treadle.lane, '-infinity') as job
            order by job.run_at
            limit c_jobs
        ) as job
        limit c_jobs
    ));
end
$$;
