-- Part of find_jobs(): jobs that can be claimed, now or later, in the order in which they will be; also from paused lanes.
--
-- Of each priority in turn, as many jobs of each lane as may be needed are read, and merged. What lies behind the last
-- one read of any lane is not known to be next, and is left to another round. A look begins at what is settled, because of
-- the dead entries below (see tick.sql); the floor is only a hint, and might hide a job.
create or replace function treadle.find_pending(
    p_job_type varchar,
    p_queue varchar,
    p_worker_id varchar,
    p_search text,
    p_priority int,
    p_run_at timestamptz,
    p_id uuid,
    p_limit int,
    p_look int,
    p_bytes bigint
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
set plan_cache_mode = force_custom_plan
as $$
declare
    c_end constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
    v_level record;
    v_round record;
    v_take int;
    v_share bigint;
    v_read bigint := 0;
    v_spent bigint := 0;
    v_found int := 0;
begin
    -- Where the look has come to; the columns of the sentinel are its place.
    looked := 0;
    last := false;

    for v_level in
        select
            lane.priority,
            array_agg(lane.queue) as queues,
            array_agg(lane.job_type) as job_types,
            array_agg(lane.start) as starts,
            count(*)::int as lanes
        from (
            select known.queue, known.job_type, known.priority, max(known.settled) as start
            from treadle.lanes as known
            where (p_job_type is null or known.job_type = p_job_type)
              and (p_queue is null or known.queue = p_queue)
              and (p_priority is null or known.priority <= p_priority)
            group by known.queue, known.job_type, known.priority
        ) as lane
        group by lane.priority
        order by lane.priority desc
    loop
        -- The level before was the end of what may be looked at.
        if v_read >= p_look or v_spent >= p_bytes then
            fits := false;
            last := true;
            return next;
            return;
        end if;

        rank := v_level.priority;
        at := case when rank = p_priority then p_run_at else '-infinity' end;
        id := case when rank = p_priority then p_id else '00000000-0000-0000-0000-000000000000' end;
        v_take := p_limit + 1;
        loop
            v_take := greatest(1, least(v_take, (p_look - v_read) / v_level.lanes));
            v_share := greatest(1, (p_bytes - v_spent) / v_level.lanes);

            with seen as materialized (
                select
                    step.id,
                    step.run_at,
                    step.bytes,
                    step.nth = v_take or step.spent >= v_share as cut,
                    (p_worker_id is null or step.worker_id = p_worker_id)
                        and (
                            p_search is null
                            or strpos(lower(step.data::text), p_search) > 0
                            or strpos(lower(step.last_error), p_search) > 0
                        ) as fits
                from unnest(v_level.queues, v_level.job_types, v_level.starts) as lane (queue, job_type, start)
                cross join lateral (
                    select next.*, row_number() over so_far as nth, sum(next.bytes) over so_far as spent
                    from (
                        select
                            job.id,
                            job.run_at,
                            job.worker_id,
                            job.data,
                            job.last_error,
                            case
                                when p_search is null then 0
                                else pg_column_size(job.data) + coalesce(pg_column_size(job.last_error), 0)
                            end as bytes
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
                    window so_far as (rows between unbounded preceding and current row)
                ) as step
                where step.spent - step.bytes < v_share
            ),
            horizon as materialized (
                select seen.run_at, seen.id
                from seen
                where seen.cut
                order by seen.run_at, seen.id
                limit 1
            )
            select
                array_agg(seen.id order by seen.run_at, seen.id) filter (where seen.fits) as ids,
                array_agg(seen.run_at order by seen.run_at, seen.id) filter (where seen.fits) as times,
                count(*) as known,
                (select count(*) from seen) as read,
                (select sum(seen.bytes) from seen) as bytes,
                (select horizon.run_at from horizon) as run_at,
                (select horizon.id from horizon) as id
            into v_round
            from seen
            where not exists (select from horizon)
               or (seen.run_at, seen.id) <= (select horizon.run_at, horizon.id from horizon);

            looked := looked + v_round.known;
            v_read := v_read + v_round.read;
            v_spent := v_spent + coalesce(v_round.bytes, 0);

            return query
            select found.id, v_level.priority, found.run_at, true, false, find_pending.looked
            from unnest(v_round.ids, v_round.times) with ordinality as found (id, run_at, nth)
            order by found.nth
            limit p_limit + 1 - v_found;

            v_found := v_found + coalesce(cardinality(v_round.ids), 0);
            if v_found > p_limit then
                return;
            end if;

            if v_round.id is null then
                at := 'infinity';
                id := c_end;
                exit;
            end if;
            at := v_round.run_at;
            id := v_round.id;
            if v_read + v_level.lanes > p_look or v_spent >= p_bytes then
                fits := false;
                last := true;
                return next;
                return;
            end if;
            v_take := v_take * 4;
        end loop;
    end loop;
end
$$;

comment on function treadle.find_pending(varchar, varchar, varchar, text, int, timestamptz, uuid, int, int, bigint)
    is 'Part of find_jobs(): jobs that can be claimed, in the order in which they will be.';
