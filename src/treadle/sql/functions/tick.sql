-- Moves the lanes' floors up, finds what was committed late below them, and merges and retires lanes.
-- Called about twice a second by whoever claims; correct whether anybody calls it or not.
--
-- Why a floor: while a snapshot is open anywhere, index entries of claimed jobs cannot be removed, and each claim
-- would walk over all of them. Claims start at the floor instead. What lies below it unseen can only be a job whose
-- transaction had not committed when the floor moved, or rows that somebody holds locked; both are looked for
-- from "settled" on, at every tick.
--
-- Why settled is a fact. Everybody who makes a job claimable takes a transaction number first, and only then reads
-- the clock (new jobs) or the floor (jobs that come back), and goes no lower. A mark is a floor that a tick
-- committed. A tick begins an era with a number of its own, taken when the tick before it had committed: who has a
-- higher number sees that tick's floors. The next era begins when all lower numbers have ended. So two eras after a
-- mark was written, every transaction is either over and visible to this tick, or bound to stay above the mark: the
-- mark, or the oldest job still waiting below it, becomes settled.
create or replace function treadle.tick(p_interval interval default '400 milliseconds') returns int
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_indexscan = on
set enable_nestloop = on
set jit = off
as $$
declare
    -- Jobs are stamped a moment before their commit: a floor right behind the clock would make all of them late.
    c_margin constant interval := '250 milliseconds';
    -- Rows locked by others move the floor only in such numbers: a small claim that rolls back is found at once.
    c_locked constant int := 100;
    c_unused constant interval := '1 day';
    c_watched constant int := 200;
    v_now constant timestamptz := clock_timestamp();
    v_last timestamptz;
    v_era bigint;
    v_mark_xid xid8;
    v_own xid8;
    v_snapshot pg_snapshot;
    v_running xid[];
    v_look_after timestamptz;
    v_began timestamptz;
    v_queues varchar[];
    v_job_types varchar[];
    v_priorities int[];
    v_lane record;
    v_floor timestamptz;
    v_settled timestamptz;
    v_mark timestamptz;
    v_mark_era bigint;
    v_close_era bigint;
    v_moved int := 0;
begin
    select to_timestamp(clock.last_value / 1000000.0)
    into v_last
    from treadle.tick_clock as clock;

    if v_last > v_now - p_interval and v_last <= v_now or not treadle.reads_fresh() then
        return 0;
    end if;

    -- One tick at a time, to its commit. Not a row lock: that would take a transaction number before it is had.
    if not pg_try_advisory_xact_lock(hashtext('treadle tick'), hashoid('treadle.horizon'::regclass)) then
        return 0;
    end if;

    -- In a transaction that has written already, the number is too old to begin an era with.
    if pg_current_xact_id_if_assigned() is not null then
        return 0;
    end if;

    v_own := pg_current_xact_id();
    v_snapshot := pg_current_snapshot();

    select horizon.era, horizon.mark_xid, horizon.look_after
    into v_era, v_mark_xid, v_look_after
    from treadle.horizon as horizon;

    -- A mark from the future comes from a dump of another server; begin anew.
    if pg_snapshot_xmin(v_snapshot) > v_mark_xid or v_own < v_mark_xid then
        v_era := v_era + 1;
        v_mark_xid := v_own;
    end if;

    -- The numbers under which running transactions lock rows: those the snapshot lists, and those between its
    -- end and our own. Only a hint: a job passed over by mistake lies above settled, and the next tick finds it.
    select array_agg((running.number % 4294967296)::text::xid)
    into v_running
    from (
        select listed::text::bigint as number
        from pg_snapshot_xip(v_snapshot) as listed
        union all
        select generate_series(pg_snapshot_xmax(v_snapshot)::text::bigint, v_own::text::bigint - 1)
    ) as running;

    -- Under an old snapshot the index of held jobs is full of dead entries, too. So this look takes a fiftieth of the
    -- time at most.
    if v_now >= v_look_after then
        v_began := clock_timestamp();
        select array_agg(held.queue), array_agg(held.job_type), array_agg(held.priority)
        into v_queues, v_job_types, v_priorities
        from (
            select job.queue, job.job_type, job.priority
            from treadle.jobs as job
            where job.status in ('claimed', 'running')
            limit 1000
        ) as held;
        v_look_after := clock_timestamp() + 50 * (clock_timestamp() - v_began);
    end if;

    update treadle.horizon
    set era = v_era,
        mark_xid = v_mark_xid,
        look_after = v_look_after;

    for v_lane in
        with busy as materialized (
            -- Lanes that jobs have left since the last tick, by a sample of those jobs.
            (
                select job.queue, job.job_type, job.priority
                from treadle.jobs as job
                where job.status = 'completed'
                  and job.finished_at >= v_last - c_margin
                order by job.finished_at desc
                limit 1000
            )
            union
            (
                select job.queue, job.job_type, job.priority
                from treadle.jobs as job
                where job.status = 'failed'
                  and job.finished_at >= v_last - c_margin
                order by job.finished_at desc
                limit 1000
            )
            union
            select held.queue, held.job_type, held.priority
            from unnest(v_queues, v_job_types, v_priorities) as held (queue, job_type, priority)
        ),
        lane as materialized (
            select
                known.queue,
                known.job_type,
                known.priority,
                min(known.id) as id,
                array_agg(known.id) as ids,
                max(known.opened_at) as opened_at,
                max(known.floor) as floor,
                max(known.settled) as settled,
                max(known.mark) as mark,
                max(known.mark_era) as mark_era,
                case when bool_and(known.close_era is not null or known.busy) then max(known.close_era) end as close_era,
                count(known.id) > 1 as merge,
                bool_or(known.busy) as busy
            from (
                select
                    lane.queue, lane.job_type, lane.priority, lane.id, lane.opened_at, lane.floor, lane.settled,
                    lane.mark, lane.mark_era, lane.close_era, false as busy
                from treadle.lanes as lane
                union all
                select
                    busy.queue, busy.job_type, busy.priority, null, null, null, null, null, null, null, true
                from busy
            ) as known
            group by known.queue, known.job_type, known.priority
            having count(known.id) > 0
        ),
        watched as materialized (
            -- Where no job left and none can come late, there is little to look for: of thousands of such lanes,
            -- some in turn.
            select *
            from lane
            where lane.busy
               or lane.merge
               or lane.floor > lane.settled
               or (lane.id + (extract(epoch from v_now) * 2)::bigint)
                    % greatest(1, (select count(*) from lane) / c_watched) = 0
        )
        select lane.*, oldest.run_at as oldest, free.run_at as free
        from watched as lane
        left join lateral (
            select job.run_at
            from treadle.jobs as job
            where job.queue = lane.queue
              and job.job_type = lane.job_type
              and job.priority = lane.priority
              and job.run_at >= lane.settled
              and job.status = 'pending'
              and job.holds = 0
              and job.attempts < job.max_attempts
            order by job.run_at
            limit 1
        ) as oldest on true
        left join lateral (
            select job.run_at
            from treadle.jobs as job
            where v_running is not null
              and job.queue = lane.queue
              and job.job_type = lane.job_type
              and job.priority = lane.priority
              and job.run_at >= oldest.run_at
              and job.status = 'pending'
              and job.holds = 0
              and job.attempts < job.max_attempts
              and not job.xmax = any (v_running)
            order by job.run_at
            limit 1
        ) as free on true
    loop
        v_floor := v_lane.floor;
        v_settled := v_lane.settled;
        v_mark := v_lane.mark;
        v_mark_era := v_lane.mark_era;
        v_close_era := v_lane.close_era;

        -- Many rows at the head are locked by somebody: step over them.
        if v_running is not null
            and v_lane.oldest <= v_now
            and v_lane.free is distinct from v_lane.oldest
            and c_locked < (
                select count(*)
                from (
                    select
                    from treadle.jobs as job
                    where job.queue = v_lane.queue
                      and job.job_type = v_lane.job_type
                      and job.priority = v_lane.priority
                      and job.run_at >= v_lane.oldest
                      and job.run_at < coalesce(v_lane.free, 'infinity')
                      and job.status = 'pending'
                      and job.holds = 0
                      and job.attempts < job.max_attempts
                    limit c_locked + 1
                ) as locked
            )
        then
            v_floor := least(coalesce(v_lane.free, v_now - c_margin), v_now - c_margin);
        -- A late commit, or jobs taken from the head: follow the oldest. An idle lane is left alone.
        -- So is, but for once a minute, one whose jobs are all due later: they may be such as snooze again and again.
        elsif v_lane.oldest < v_lane.floor
            or v_lane.oldest <= v_now and v_lane.oldest > v_lane.floor
            or v_lane.oldest > v_now and v_lane.floor < v_now - interval '1 minute'
            or v_lane.busy
        then
            v_floor := least(coalesce(v_lane.oldest, v_now - c_margin), v_now - c_margin);
            -- Without a late commit the floor only rises.
            if v_lane.oldest is null or v_lane.oldest >= v_lane.floor then
                v_floor := greatest(v_floor, v_lane.floor);
            end if;
        end if;

        -- Also if the clock was set back.
        v_floor := greatest(v_floor, v_settled);

        if v_era >= v_mark_era + 2 then
            v_settled := greatest(v_settled, least(v_mark, v_lane.oldest));
            if v_floor > v_mark then
                v_mark := v_floor;
                v_mark_era := v_era;
            end if;
        end if;
        if v_floor < v_mark then
            v_mark := v_floor;
            v_mark_era := v_era;
        end if;

        -- A lane that nobody used for a day gets notice; who enqueues after that adds the lane anew. Two eras
        -- later nobody is left who counted on it.
        if v_lane.oldest is not null then
            v_close_era := null;
        elsif v_close_era is not null and v_era >= v_close_era + 2 and not v_lane.merge then
            delete from treadle.lanes where id = v_lane.id;
            v_moved := v_moved + 1;
            continue;
        elsif v_close_era is null
            and not v_lane.busy
            and greatest(v_lane.opened_at, v_lane.floor) < v_now - c_unused
        then
            v_close_era := v_era;
        end if;

        if v_lane.merge then
            -- Only those that were seen: somebody may count on one that came since.
            delete from treadle.lanes
            where id = any (v_lane.ids)
              and id <> v_lane.id;
        end if;

        if v_lane.merge
            or (v_floor, v_settled, v_mark, v_mark_era) <> (v_lane.floor, v_lane.settled, v_lane.mark, v_lane.mark_era)
            or v_close_era is distinct from v_lane.close_era
        then
            update treadle.lanes
            set floor = v_floor,
                settled = v_settled,
                mark = v_mark,
                mark_era = v_mark_era,
                close_era = v_close_era
            where id = v_lane.id;
            v_moved := v_moved + 1;
        end if;
    end loop;

    perform setval('treadle.tick_clock', (extract(epoch from v_now) * 1000000)::bigint);
    return v_moved;
end
$$;

comment on function treadle.tick(interval)
    is 'Upkeep of the lanes, for whoever claims to call about twice a second; returns how many lanes it changed, 0 if another tick was just made.';
