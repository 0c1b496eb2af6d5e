-- The claimable jobs that are due at p_from or later, in the order in which they will be claimed, for find_jobs().
-- Paused lanes are included.
--
-- Priorities are read one after the other. Of each lane of a priority as many jobs as may be needed are read, and the
-- lanes are merged. A job behind the last one read of any lane may not be the next one, and is left to another round.
create or replace function treadle.find_claimable(
    p_job_type varchar,
    p_queue varchar,
    p_worker_id varchar,
    p_search text,
    p_payloads boolean,
    p_from timestamptz,
    p_priority int,
    p_run_at timestamptz,
    p_id uuid,
    p_limit int,
    p_look int,
    p_end timestamptz,
    p_digits text,
    p_first uuid,
    p_last uuid,
    p_path text[],
    p_value jsonb,
    p_also jsonb
) returns table (id uuid, rank int, at timestamptz, fits boolean, last boolean, examined bigint)
language plpgsql stable
rows 100
set enable_bitmapscan = off
set enable_sort = off
set enable_indexscan = on
set enable_incremental_sort = on
set enable_nestloop = on
set max_parallel_workers_per_gather = 0
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    -- How many jobs a round reads at most, of all lanes, unless a page needs more: the clock is checked between rounds.
    c_jobs constant int := 200;
    c_end constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_level record;
    v_job record;
    v_take int;
    v_read bigint := 0;
    v_found int := 0;
begin
    examined := 0;

    for v_level in
        select
            (known.lane).priority,
            array_agg(known.lane) as lanes,
            array_agg(greatest(known.start, p_from)) as starts,
            count(*)::int as number
        from treadle.lanes_to_search(v_safe) as known
        where (p_job_type is null or (known.lane).job_type = p_job_type)
          and (p_queue is null or (known.lane).queue = p_queue)
          -- A search that stopped at the end of a priority continues with the next one.
          and (
                p_priority is null
                or (known.lane).priority < p_priority
                or (known.lane).priority = p_priority and p_id <> c_end
              )
        group by (known.lane).priority
        order by (known.lane).priority desc
    loop
        -- The previous priority has used up the time.
        if rank is not null and coalesce(clock_timestamp() > p_end, false) then
            fits := false;
            last := true;
            return next;
            return;
        end if;

        rank := v_level.priority;
        at := case when rank = p_priority then p_run_at else '-infinity' end;
        id := case when rank = p_priority then p_id else '00000000-0000-0000-0000-000000000000' end;
        v_take := case when p_limit < c_jobs then p_limit + 1 else c_jobs / v_level.number end;
        loop
            v_take := greatest(1, least(v_take, (p_look - v_read) / v_level.number));

            for v_job in
                with candidate as materialized (
                    select step.*
                    from generate_subscripts(v_level.lanes, 1) as lane
                    cross join lateral (
                        select next.*, row_number() over () as nth
                        from (
                            select job.id, job.run_at, job.worker_id, job.last_error
                            from treadle.lane_jobs(v_level.lanes[lane], greatest(v_level.starts[lane], find_claimable.at))
                                as job
                            where (job.run_at, job.id) > (find_claimable.at, find_claimable.id)
                            order by job.run_at, job.id
                            limit v_take
                        ) as next
                    ) as step
                ),
                horizon as materialized (
                    select candidate.run_at, candidate.id
                    from candidate
                    where candidate.nth = v_take
                    order by candidate.run_at, candidate.id
                    limit 1
                )
                select
                    candidate.id,
                    candidate.run_at,
                    (p_worker_id is null or coalesce(candidate.worker_id = p_worker_id, false))
                        and (p_first is null or candidate.id >= p_first)
                        and (p_last is null or candidate.id < p_last) as fits,
                    p_search is null
                        or coalesce(strpos(lower(candidate.last_error), p_search) > 0, false)
                        or p_digits is not null and treadle.has_digits(candidate.id, p_digits) as in_text,
                    (select count(*) from candidate) as read,
                    horizon.id is not null as more
                from candidate
                left join horizon on true
                where horizon.id is null
                   or (candidate.run_at, candidate.id) <= (horizon.run_at, horizon.id)
                order by candidate.run_at, candidate.id
            loop
                examined := examined + 1;
                id := v_job.id;
                at := v_job.run_at;
                fits := v_job.fits and (v_job.in_text or p_payloads);
                if fits and (p_path is not null or not v_job.in_text) then
                    fits := exists (
                        select
                        from treadle.jobs as job
                        where job.id = v_job.id
                          and (p_path is null or job.data #> p_path = coalesce(p_value, job.data #> p_path))
                          and (p_also is null or treadle.has_values(job.data, p_also))
                          and (v_job.in_text or strpos(lower(job.data::text), p_search) > 0)
                    );
                end if;
                last := (p_search is not null or p_path is not null or p_limit >= p_look)
                    and coalesce(clock_timestamp() > p_end, false);
                if fits or last then
                    return next;
                end if;
                if fits then
                    v_found := v_found + 1;
                end if;
                if last or v_found > p_limit then
                    return;
                end if;
            end loop;

            v_read := v_read + coalesce(v_job.read, 0);
            if v_job.more is not true then
                at := 'infinity';
                id := c_end;
                exit;
            end if;
            if v_read + v_level.number > p_look or coalesce(clock_timestamp() > p_end, false) then
                fits := false;
                last := true;
                return next;
                return;
            end if;
            v_take := greatest(v_take, c_jobs / v_level.number);
        end loop;
    end loop;
end
$$;
