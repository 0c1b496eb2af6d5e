-- Counts up to p_limit jobs of a lane, or of a finished status, from p_from to before p_to. Jobs with the same time as
-- the last one are counted, too, however many there are, so that the next span can begin after it.
create or replace function treadle.count_span(
    p_status varchar,
    p_lane treadle.lane,
    p_from timestamptz,
    p_to timestamptz,
    p_limit int,
    out jobs bigint,
    out last timestamptz
)
language plpgsql stable
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
    if p_status = 'pending' then
        select count(*), max(counted.run_at)
        into jobs, last
        from (
            select job.run_at
            from treadle.lane_jobs(p_lane, p_from) as job
            where job.run_at < p_to
            order by job.run_at
            fetch first (p_limit) rows with ties
        ) as counted;
    else
        select count(*), max(counted.finished_at)
        into jobs, last
        from (
            select job.finished_at
            from treadle.jobs as job
            where job.status in ('completed', 'failed', 'cancelled')
              and job.status = p_status
              and job.finished_at >= p_from
              and job.finished_at < p_to
            order by job.finished_at
            fetch first (p_limit) rows with ties
        ) as counted;
    end if;
end
$$;
