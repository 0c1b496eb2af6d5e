-- The jobs whose last failure is in a group of errors, the latest first: those that have failed, or those that are
-- pending. The page begins after the failure of p_id at p_at. At most p_look failures are examined: "last" marks where
-- it stopped, and that job is part of the page only if it "fits".
create or replace function treadle.find_group_jobs(
    p_group_id int,
    p_status varchar,
    p_at timestamptz default null,
    p_id uuid default null,
    p_limit int default 50,
    p_look int default 5000
) returns table (id uuid, at timestamptz, fits boolean, last boolean, examined bigint)
language plpgsql stable
rows 100
set treadle.plan = index_ranges
set max_parallel_workers_per_gather = 0
as $$
begin
    return query
    select walk.job_id, walk.failed_at, walk.fits, walk.nth = p_look, walk.nth
    from (
        select
            counted.job_id,
            counted.failed_at,
            counted.nth,
            exists (
                select
                from treadle.jobs as job
                where job.id = counted.job_id
                  and job.status = p_status
            )
            and not exists (
                select
                from treadle.errors as later
                where later.job_id = counted.job_id
                  and later.failed_at > counted.failed_at
            ) as fits
        from (
            select
                known.job_id, known.failed_at,
                row_number() over (order by known.failed_at desc, known.job_id desc) as nth
            from treadle.grouped_errors as known
            where known.group_id = p_group_id
              and (p_id is null or (known.failed_at, known.job_id) < (p_at, p_id))
            order by known.failed_at desc, known.job_id desc
            limit p_look
        ) as counted
    ) as walk
    where walk.fits
       or walk.nth = p_look
    limit p_limit;
end
$$;
