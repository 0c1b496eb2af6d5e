-- Ids by their first or last digits: the last digits of a bounded number of the newest jobs.
--
-- Those with these first digits are one range of the primary key: at most p_limit are returned. For the last digits,
-- the next p_look ids before p_before are examined, the newest first, or fewer if those take longer than p_patience. A
-- row with `last` is where this stopped; it need not match. An index for the last digits would be written by every
-- enqueue.
create or replace function treadle.find_ids(
    p_digits text,
    p_before uuid default null,
    p_limit int default 6,
    p_look int default 50000,
    p_patience interval default '100 milliseconds'
) returns table (id uuid, fits boolean, last boolean, examined bigint)
language plpgsql stable
rows 10
set enable_bitmapscan = off
set enable_sort = off
set enable_indexscan = on
set enable_indexonlyscan = on
set max_parallel_workers_per_gather = 0
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    c_stride constant int := 500;
    v_end constant timestamptz := clock_timestamp() + p_patience;
    v_found int := 0;
    v_job record;
begin
    if p_before is null then
        return query
        select job.id, true, false, 0::bigint
        from treadle.jobs as job
        where job.id between rpad(p_digits, 32, '0')::uuid and rpad(p_digits, 32, 'f')::uuid
        order by job.id desc
        limit p_limit;
    end if;

    for v_job in
        select walk.id, walk.fits, walk.nth
        from (
            select
                read.id,
                right(replace(read.id::text, '-', ''), length(p_digits)) = p_digits as fits,
                row_number() over () as nth
            from (
                select job.id
                from treadle.jobs as job
                where p_before is null or job.id < p_before
                order by job.id desc
                limit p_look
            ) as read
        ) as walk
        where walk.fits
           or walk.nth = p_look
           or walk.nth % c_stride = 0
    loop
        id := v_job.id;
        -- An id that also begins with the digits was already returned.
        fits := v_job.fits and left(replace(id::text, '-', ''), length(p_digits)) <> p_digits;
        v_found := v_found + fits::int;
        examined := v_job.nth;
        last := v_job.nth = p_look or v_found >= p_limit or coalesce(clock_timestamp() > v_end, false);
        if fits or last then
            return next;
        end if;
        exit when last;
    end loop;
end
$$;
