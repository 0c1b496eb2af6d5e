-- Claims jobs from lanes of one priority, and returns where their rows are then. A part of claim_places(), whose settings
-- fix the plans.
--
-- Each lane is one bounded range of idx_jobs_claimable that starts at the lane's floor, so other job types, future jobs,
-- finished jobs, blocked jobs and the dead entries below the floor are never visited.
--
-- First it merges the first jobs of all lanes and counts how many of the oldest are in which lane. It reads a few jobs of
-- each; if those are not all, it reads more of those lanes only that can have more of the oldest: jobs are often enqueued in bursts.
-- Then one statement takes that many of each lane and locks them as they are read, so that claims at the same time take the next
-- ones instead of waiting for, or trying again, the same ones. Every row that is locked is taken: another claim would skip it.
--
-- p_running are transactions that were just running. Rows that they have locked are left out while they are read,
-- which is cheaper than trying each lock. That is only a guess: xmax may be the id of something else. The first statement needs
-- a better one, because it decides about the order: see recent_lockers().
create or replace function treadle.claim_lanes(
    p_worker_id varchar,
    p_now timestamptz,
    p_running xid[],
    p_wanted int,
    p_priority int,
    p_queues varchar[],
    p_job_types varchar[],
    p_partitions varchar[],
    p_starts timestamptz[],
    p_limited boolean, -- there are limits
    p_fair varchar[] default null, -- the job types whose lanes take turns: see fair_shares()
    p_due timestamptz default null, -- only jobs that were due then
    p_wait boolean default false -- for limits that others have locked
) returns tid[]
language plpgsql
as $$
declare
    -- How many jobs are read at least, of all lanes that take turns.
    c_read constant int := 200;
    -- If more index entries were read than expected, the floors have fallen behind.
    c_dead constant int := 500;
    -- How often more jobs are read because those that were read had expired. (The next claim goes on.)
    c_expired constant int := 10;
    v_read constant bigint := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass);
    v_due constant timestamptz := coalesce(p_due, p_now);
    v_lanes int := cardinality(p_queues);
    v_each double precision;
    v_head int; -- how many jobs of each lane are read
    v_any boolean := v_lanes = 1 and not p_limited and p_fair is null; -- take the jobs of one lane after the other
    v_picked int[] := array[1]; -- which lanes
    v_shares int[] := array[p_wanted]; -- how many jobs of each
    v_begins timestamptz[] := p_starts; -- where they begin
    v_lockers xid[];
    v_found int;
    v_most int; -- of one lane
    v_head_lanes int[]; -- of each job that was read first, its lane
    v_head_times timestamptz[]; -- and its time
    v_places tid[];
    v_locked tid[];
    v_keyed boolean;
    v_weighted boolean;
    v_free int[]; -- the lanes whose limits nobody else has locked
    v_limited_lanes int[]; -- which of the picked lanes has
    v_limits int[]; -- which of the limits
    v_names varchar[]; -- that were locked
    v_keys varchar[];
    v_room int[];
    v_enough boolean;
    v_granted int[];
    v_reached boolean;
    v_claimed tid[];
    v_expired int := 0;
    v_retries int := 2; -- if other claims are faster
    v_taken tid[] := '{}';
begin
    if not v_any then
        v_lockers := treadle.recent_lockers();
    end if;

    if p_limited and v_lanes > 1 then
        v_free := treadle.free_lanes(v_lockers, p_queues, p_job_types, p_partitions);
        -- If none is free, lock_limits() may wait for them.
        if cardinality(v_free) < v_lanes and (v_free <> '{}' or not p_wait) then
            p_queues := array(select p_queues[lane] from unnest(v_free) as lane);
            p_job_types := array(select p_job_types[lane] from unnest(v_free) as lane);
            p_partitions := array(select p_partitions[lane] from unnest(v_free) as lane);
            p_starts := array(select p_starts[lane] from unnest(v_free) as lane);
            v_begins := p_starts;
            v_lanes := cardinality(v_free);
            if v_lanes = 0 then
                return '{}';
            end if;
        end if;
    end if;

    -- Usually enough if they are spread evenly. Lanes that take turns are read only so far.
    v_each := p_wanted::double precision / v_lanes;
    v_head := least(
        p_wanted, greatest(ceil(v_each + 3 * sqrt(v_each)), case when p_fair is not null then c_read / v_lanes end)
    );

    loop
        if not v_any and p_fair is not null then
            select fair.lanes, fair.shares, fair.begins, fair.jobs
            into v_picked, v_shares, v_begins, v_found
            from treadle.pick_fairly(
                p_fair, v_due, v_lockers, p_wanted, v_head, p_priority, p_queues, p_job_types, p_partitions, p_starts
            ) as fair;
        elsif not v_any then
            with head as materialized (
                select head.run_at, lane.nth as lane
                from unnest(p_queues, p_job_types, p_partitions, p_starts) with ordinality
                    as lane (queue, job_type, partition, start, nth)
                cross join lateral (
                    select job.run_at
                    from treadle.lane_jobs(
                            row(lane.queue, lane.job_type, p_priority, lane.partition)::treadle.lane, lane.start
                         ) as job
                    where job.run_at <= v_due
                      and not job.locked_by = any (v_lockers)
                      and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                    order by job.run_at
                    limit v_head
                ) as head
            )
            select
                array_agg(share.lane), array_agg(share.jobs), array_agg(share.begins), coalesce(sum(share.jobs), 0),
                max(share.jobs), (select array_agg(head.lane) from head), (select array_agg(head.run_at) from head)
            into v_picked, v_shares, v_begins, v_found, v_most, v_head_lanes, v_head_times
            from (
                select head.lane, count(*) as jobs, min(head.run_at) as begins
                from head
                group by head.lane
            ) as share;

            -- Otherwise these are all jobs that are due.
            if v_found > p_wanted or v_most = v_head then
                with head as materialized (
                    select head.lane, head.run_at
                    from unnest(v_head_lanes, v_head_times) as head (lane, run_at)
                ),
                -- The lanes of which not all jobs may have been read, and the last job that was.
                reached as materialized (
                    select head.lane, max(head.run_at) as last
                    from head
                    group by head.lane
                    having count(*) = v_head
                ),
                -- The oldest p_wanted jobs are not younger than "last". Those before "first" are known to be among them; so of each lane
                -- at most "jobs" more can be.
                bound as materialized (
                    select
                        coalesce(
                            (select head.run_at from head order by head.run_at offset p_wanted - 1 limit 1), 'infinity'
                        ) as last,
                        p_wanted + 1 - (select count(*) from head where head.run_at < known.first) as jobs
                    from (
                        select min(reached.last) as first
                        from reached
                    ) as known
                ),
                further as materialized (
                    select further.run_at, reached.lane
                    from reached
                    cross join lateral (
                        select job.run_at
                        from treadle.lane_jobs(
                                row(
                                    p_queues[reached.lane], p_job_types[reached.lane], p_priority, p_partitions[reached.lane]
                                )::treadle.lane,
                                reached.last
                             ) as job
                        where job.run_at <= v_due
                          and job.run_at <= (select bound.last from bound)
                          and not job.locked_by = any (v_lockers)
                          and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                        order by job.run_at
                        limit (select bound.jobs from bound)
                    ) as further
                    where reached.last <= (select bound.last from bound)
                )
                select
                    array_agg(share.lane), array_agg(share.jobs), array_agg(share.begins), coalesce(sum(share.jobs), 0)
                into v_picked, v_shares, v_begins, v_found
                from (
                    select next.lane, count(*) as jobs, min(next.run_at) as begins
                    from (
                        select known.lane, known.run_at
                        from (
                            select head.lane, head.run_at
                            from head
                            where (head.lane, head.run_at) not in (select reached.lane, reached.last from reached)
                            union all
                            select further.lane, further.run_at
                            from further
                        ) as known
                        order by known.run_at
                        limit p_wanted
                    ) as next
                    group by next.lane
                ) as share;
            end if;
        end if;

        v_reached := false;
        v_names := null;
        if p_limited and v_picked is not null then
            select limited.shares, limited.lanes, limited.limits, limited.names, limited.keys, limited.room, limited.enough
            into v_granted, v_limited_lanes, v_limits, v_names, v_keys, v_room, v_enough
            from treadle.lock_limits(
                p_now, p_priority,
                array(select p_queues[lane] from unnest(v_picked) as lane),
                array(select p_job_types[lane] from unnest(v_picked) as lane),
                array(select p_partitions[lane] from unnest(v_picked) as lane),
                p_wait and v_taken = '{}',
                v_shares
            ) as limited;
            v_reached := v_granted <> v_shares;
            -- Those for which there is not room enough are not read again.
            for v_nth in 1 .. case when v_reached then cardinality(v_picked) else 0 end loop
                if v_granted[v_nth] < v_shares[v_nth] then
                    p_starts[v_picked[v_nth]] := 'infinity';
                end if;
            end loop;
            v_shares := v_granted;
        end if;

        select array_agg(picked.place), bool_or(picked.keyed), bool_or(picked.weighted)
        into v_places, v_keyed, v_weighted
        from (
            select job.place, job.keyed, job.weighted
            from unnest(v_picked, v_shares, v_begins) as share (lane, jobs, begins)
            cross join lateral (
                select job.ctid as place, job.key is not null as keyed, job.weight > 1 as weighted
                from treadle.jobs as job
                where treadle.is_in_lane(
                        job.queue, job.job_type, job.priority, job.partition,
                        row(p_queues[share.lane], p_job_types[share.lane], p_priority, p_partitions[share.lane])::treadle.lane
                      )
                  and job.run_at >= share.begins
                  and job.run_at <= v_due
                  and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
                  and not job.xmax = any (p_running)
                  and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                order by job.run_at
                limit share.jobs
                for no key update skip locked
            ) as job
            limit p_wanted
        ) as picked;

        if v_names is null then
            v_claimed := treadle.mark_claimed(p_worker_id, p_now, v_places, v_keyed);
        else
            if v_places is not null and (v_weighted or not v_enough) then
                v_locked := v_places;
                v_places := treadle.admit_jobs(p_now, v_locked, v_names, v_keys, v_room, p_fair is not null);
                -- Nor are those with a job that does not fit: another round must not take the jobs behind it.
                if cardinality(v_places) < cardinality(v_locked) then
                    p_starts := array(
                        select case when waiting.found then 'infinity' else lane.start end
                        from unnest(p_queues, p_job_types, p_partitions, p_starts) with ordinality
                            as lane (queue, job_type, partition, start, nth)
                        cross join lateral (
                            select exists (
                                select
                                from treadle.jobs as job
                                where job.ctid = any (v_locked)
                                  and job.ctid <> all (v_places)
                                  and job.queue = lane.queue
                                  and job.job_type = lane.job_type
                                  and job.partition = lane.partition
                            ) as found
                        ) as waiting
                        order by lane.nth
                    );
                end if;
            end if;
            v_claimed := treadle.mark_claimed(p_worker_id, p_now, v_places, v_keyed, treadle.flag_limited() | treadle.flag_opening());
            perform treadle.hold_slots(
                p_now, v_claimed,
                array(select p_queues[lane] from unnest(v_picked) as lane),
                array(select p_job_types[lane] from unnest(v_picked) as lane),
                array(select p_partitions[lane] from unnest(v_picked) as lane),
                v_limited_lanes, v_limits, v_names, v_keys, v_room
            );
        end if;
        v_taken := v_taken || v_claimed;
        p_wanted := p_wanted - cardinality(v_claimed);
        if cardinality(v_claimed) < cardinality(v_places) and not v_keyed and v_expired < c_expired then
            v_expired := v_expired + 1;
            continue;
        end if;
        exit when p_wanted = 0 or v_any;

        if v_reached or p_fair is not null and v_claimed <> '{}' then
            -- Without the lanes whose limits are reached.
            v_head := case when p_fair is null then v_head else least(4 * v_head, p_wanted) end;
            continue;
        end if;

        if cardinality(v_claimed) < v_found and v_retries > 0 then
            -- Other claims were faster: choose again.
            v_retries := v_retries - 1;
            v_lockers := treadle.recent_lockers();
        elsif cardinality(v_claimed) < v_found
            or v_taken = '{}' and pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) > v_read
        then
            -- Other claims were faster again, or all rows are locked: try each row that is left.
            v_any := true;
            v_picked := array(select generate_series(1, v_lanes));
            -- Under a limit, not all of one lane: that takes a count of the jobs that use it.
            v_shares := array_fill(case when p_limited then least(p_wanted, v_head) else p_wanted end, array[v_lanes]);
            v_begins := p_starts;
        else
            exit;
        end if;
    end loop;

    if pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass)
        > v_read + v_lanes * v_head + 4 * (cardinality(v_taken) + p_wanted) + c_dead
    then
        perform treadle.raise_floors(p_now, p_running, p_priority, p_queues, p_job_types, p_partitions, p_starts);
    end if;
    return v_taken;
end
$$;

comment on function treadle.claim_lanes(varchar, timestamptz, xid[], int, int, varchar[], varchar[], varchar[], timestamptz[], boolean, varchar[], timestamptz, boolean)
    is 'Claims up to p_wanted due jobs from these lanes, the oldest first, and returns where their rows are then.';
