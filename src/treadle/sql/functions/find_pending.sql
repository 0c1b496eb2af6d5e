-- Part of find_jobs(): jobs that can be claimed, now or later, in the order in which they will be; also from paused lanes.
-- Of those, only what is due at p_from or later.
--
-- Of each priority in turn, as many jobs of each lane as may be needed are read, and merged. What lies behind the last
-- one read of any lane is not known to be next, and is left to another round. A look begins at what is settled, because of
-- the dead entries below (see tick.sql); the floor is only a hint, and might hide a job.
create or replace function treadle.find_pending(
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
    p_end timestamptz
) returns table (id uuid, rank int, at timestamptz, fits boolean, last boolean, looked bigint)
language plpgsql stable
rows 100
set enable_seqscan = off
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
    -- What a round reads at most, of all lanes, unless it is for a full page: the clock is looked at between rounds.
    c_jobs constant int := 200;
    c_end constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_level record;
    v_round record;
    v_take int;
    v_nth int;
    v_read bigint := 0;
    v_found int := 0;
begin
    looked := 0;

    for v_level in
        select
            lane.priority,
            array_agg(lane.queue) as queues,
            array_agg(lane.job_type) as job_types,
            array_agg(lane.start) as starts,
            count(*)::int as lanes
        from (
            select known.queue, known.job_type, known.priority, greatest(max(known.settled), p_from) as start
            from treadle.lanes as known
            where (p_job_type is null or known.job_type = p_job_type)
              and (p_queue is null or known.queue = p_queue)
              -- Behind the last job of a priority there is only the next one: a look has to get ahead.
              and (p_priority is null or known.priority < p_priority or known.priority = p_priority and p_id <> c_end)
            group by known.queue, known.job_type, known.priority
        ) as lane
        group by lane.priority
        order by lane.priority desc
    loop
        -- The priority before was the end of what there is time for.
        if rank is not null and coalesce(clock_timestamp() > p_end, false) then
            fits := false;
            last := true;
            return next;
            return;
        end if;

        rank := v_level.priority;
        at := case when rank = p_priority then p_run_at else '-infinity' end;
        id := case when rank = p_priority then p_id else '00000000-0000-0000-0000-000000000000' end;
        v_take := case when p_limit < c_jobs then p_limit + 1 else c_jobs / v_level.lanes end;
        loop
            v_take := greatest(1, least(v_take, (p_look - v_read) / v_level.lanes));

            with seen as materialized (
                select
                    step.id,
                    step.run_at,
                    step.nth = v_take as cut,
                    p_worker_id is null or coalesce(step.worker_id = p_worker_id, false) as fits,
                    p_search is null or coalesce(strpos(lower(step.last_error), p_search) > 0, false) as told
                from unnest(v_level.queues, v_level.job_types, v_level.starts) as lane (queue, job_type, start)
                cross join lateral (
                    select next.*, row_number() over () as nth
                    from (
                        select job.id, job.run_at, job.worker_id, job.last_error
                        from treadle.jobs as job
                        where job.queue = lane.queue
                          and job.job_type = lane.job_type
                          and job.priority = v_level.priority
                          and job.run_at >= greatest(lane.start, find_pending.at)
                          and (job.run_at, job.id) > (find_pending.at, find_pending.id)
                          and job.status = 'pending'
                          and job.holds = 0
                          and job.attempts < job.max_attempts
                        order by job.run_at, job.id
                        limit v_take
                    ) as next
                ) as step
            ),
            horizon as materialized (
                select seen.run_at, seen.id
                from seen
                where seen.cut
                order by seen.run_at, seen.id
                limit 1
            )
            select
                array_agg(seen.id order by seen.run_at, seen.id) as ids,
                array_agg(seen.run_at order by seen.run_at, seen.id) as times,
                array_agg(seen.fits order by seen.run_at, seen.id) as fit,
                array_agg(seen.told order by seen.run_at, seen.id) as told,
                (select count(*) from seen) as read,
                (select horizon.run_at from horizon) as run_at,
                (select horizon.id from horizon) as id
            into v_round
            from seen
            where not exists (select from horizon)
               or (seen.run_at, seen.id) <= (select horizon.run_at, horizon.id from horizon);

            v_read := v_read + v_round.read;
            for v_nth in 1 .. coalesce(cardinality(v_round.ids), 0) loop
                looked := looked + 1;
                id := v_round.ids[v_nth];
                at := v_round.times[v_nth];
                fits := v_round.fit[v_nth] and (v_round.told[v_nth] or p_payloads);
                if fits and not v_round.told[v_nth] then
                    fits := exists (
                        select
                        from treadle.jobs as job
                        where job.id = find_pending.id
                          and strpos(lower(job.data::text), p_search) > 0
                    );
                end if;
                last := (p_search is not null or p_limit >= p_look) and coalesce(clock_timestamp() > p_end, false);
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

            if v_round.id is null then
                at := 'infinity';
                id := c_end;
                exit;
            end if;
            at := v_round.run_at;
            id := v_round.id;
            if v_read + v_level.lanes > p_look or coalesce(clock_timestamp() > p_end, false) then
                fits := false;
                last := true;
                return next;
                return;
            end if;
            v_take := greatest(v_take, c_jobs / v_level.lanes);
        end loop;
    end loop;
end
$$;

comment on function treadle.find_pending(varchar, varchar, varchar, text, boolean, timestamptz, int, timestamptz, uuid, int, int, timestamptz)
    is 'Part of find_jobs(): jobs that can be claimed, in the order in which they will be.';
