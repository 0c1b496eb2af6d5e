-- Claims jobs from lanes of one priority, and returns where their rows are then. A part of claim_places(), whose settings
-- fix the plans.
--
-- Each lane is one bounded range of idx_jobs_claimable that starts at the lane's floor, so other job types, future jobs,
-- finished jobs, blocked jobs and the dead entries below the floor are never visited.
--
-- Two statements. The first merges the first jobs of all lanes and counts how many of the oldest are in which lane. The second
-- takes that many of each lane and locks them as they are read, so that claims at the same time take the next ones instead of
-- waiting for, or trying again, the same ones. Every row that is locked is taken: another claim would skip it.
--
-- p_running are transactions that were just running. Rows that they have locked are left out while they are read,
-- which is cheaper than trying each lock. That is only a guess: xmax may be the id of something else. The first statement needs
-- a better one, because it decides about the order. A snapshot does not list the newest transactions: so the next ids, too.
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
    -- How many jobs are read at least, of all lanes, before there is another round.
    c_read constant int := 200;
    -- If more index entries were read than expected, the floors have fallen behind.
    c_dead constant int := 500;
    c_newest constant int := 10;
    -- How often more jobs are read because those that were read had expired. (The next claim goes on.)
    c_expired constant int := 10;
    v_read constant bigint := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass);
    v_snapshot constant pg_snapshot := pg_current_snapshot();
    v_due constant timestamptz := coalesce(p_due, p_now);
    v_lanes int := cardinality(p_queues);
    v_each double precision;
    v_head int; -- how many jobs of each lane are read
    v_after timestamptz := '-infinity'; -- the jobs before this one were read
    v_cut timestamptz; -- the jobs up to this one were read; null: all were
    v_any boolean := v_lanes = 1 and not p_limited and p_fair is null; -- take the jobs of one lane after the other
    v_picked int[] := array[1]; -- which lanes
    v_shares int[] := array[p_wanted]; -- how many jobs of each
    v_begins timestamptz[] := p_starts; -- where they begin
    v_lockers xid[];
    v_found int;
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
    v_taken tid[] := '{}';
begin
    if not v_any then
        v_lockers := array(
            select running::xid
            from pg_snapshot_xip(v_snapshot) as running
            union all
            -- Not this transaction: it may have locked jobs that did not fit into a limit.
            select (pg_snapshot_xmax(v_snapshot)::text::bigint + nth)::text::xid8::xid
            from generate_series(0, c_newest - 1) as nth
            where (pg_snapshot_xmax(v_snapshot)::text::bigint + nth)::text::xid8
                is distinct from pg_current_xact_id_if_assigned()
        );
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

    -- Enough if they are spread evenly.
    v_each := p_wanted::double precision / v_lanes;
    v_head := least(p_wanted, greatest(ceil(v_each + 3 * sqrt(v_each)), c_read / v_lanes));

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
                            row(lane.queue, lane.job_type, p_priority, lane.partition)::treadle.lane,
                            greatest(lane.start, v_after)
                         ) as job
                    where job.run_at <= v_due
                      and not job.locked_by = any (v_lockers)
                      and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                    order by job.run_at
                    limit v_head
                ) as head
            ),
            known as materialized (
                select min(lane.last) as cut
                from (
                    select max(head.run_at) as last
                    from head
                    group by head.lane
                    having count(*) = v_head
                ) as lane
            )
            select
                array_agg(share.lane), array_agg(share.jobs), array_agg(share.begins), coalesce(sum(share.jobs), 0),
                (select known.cut from known)
            into v_picked, v_shares, v_begins, v_found, v_cut
            from (
                select next.lane, count(*) as jobs, min(next.run_at) as begins
                from (
                    select head.lane, head.run_at
                    from head
                    where head.run_at <= (select coalesce(known.cut, 'infinity') from known)
                    order by head.run_at
                    limit p_wanted
                ) as next
                group by next.lane
            ) as share;
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
            v_claimed := treadle.mark_claimed(p_worker_id, p_now, v_places, v_keyed, treadle.keeps_slots());
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
            -- From the beginning, without the lanes whose limits are reached.
            v_after := '-infinity';
            v_head := case when p_fair is null then v_head else least(4 * v_head, p_wanted) end;
            continue;
        end if;

        if v_cut is not null then
            -- The jobs are spread unevenly, or many are locked: then read more.
            v_after := v_cut;
            v_head := case when 4 * cardinality(v_claimed) < v_head then 4 * v_head else p_wanted end;
        elsif cardinality(v_claimed) < v_found
            or v_taken = '{}' and pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) > v_read
        then
            -- Other claims were faster, or all are locked: try each row that is left.
            v_any := true;
            v_picked := array(select generate_series(1, v_lanes));
            -- Under a limit, not all of one lane: that takes a count of the jobs that use it.
            v_shares := array_fill(case when p_limited then least(p_wanted, v_head) else p_wanted end, array[v_lanes]);
            v_begins := p_starts;
        else
            exit;
        end if;
    end loop;

    if pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) > v_read + 2 * v_lanes * v_head + c_dead then
        perform treadle.raise_floors(p_now, p_running, p_priority, p_queues, p_job_types, p_partitions, p_starts);
    end if;
    return v_taken;
end
$$;

comment on function treadle.claim_lanes(varchar, timestamptz, xid[], int, int, varchar[], varchar[], varchar[], timestamptz[], boolean, varchar[], timestamptz, boolean)
    is 'Claims up to p_wanted due jobs from these lanes, the oldest first, and returns where their rows are then.';
