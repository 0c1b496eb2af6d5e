-- Replaced in version 0.2 by find_depths() and count_statuses(): its estimates differed between two calls. Processes of an earlier
-- version call it during a rolling upgrade. May be dropped in version 0.3.
create or replace function treadle.sample_jobs(p_pages int default 150)
returns table (status varchar, queue varchar, job_type varchar, priority int, jobs bigint, exact boolean)
language plpgsql volatile -- the result of a stable function could be reused within a statement
set jit = off
as $$
#variable_conflict use_column
declare
    v_pages constant bigint := pg_relation_size('treadle.jobs'::regclass) / current_setting('block_size')::int;
    v_exact constant boolean := v_pages <= 2 * p_pages;
    v_percent constant real := case when v_exact then 100 else 100.0 * p_pages / v_pages end;
begin
    return query
    select
        job.status,
        case when job.status = 'pending' then job.queue end,
        case when job.status = 'pending' then job.job_type end,
        case when job.status = 'pending' then job.priority end,
        round(count(*) * 100 / v_percent)::bigint,
        v_exact
    from treadle.jobs as job tablesample system (v_percent)
    group by 1, 2, 3, 4;
end
$$;

comment on function treadle.sample_jobs(int)
    is 'Deprecated: use count_statuses() and find_depths(). Dropped in version 0.3.';
