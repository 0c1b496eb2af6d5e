-- Raises the floors of the lanes, finds jobs below them that were committed late, and merges and deletes lanes. Workers
-- call it about every 0.5 s while they claim. Claims are correct without it, only slower.
--
-- Why a floor. While a snapshot is open anywhere, PostgreSQL cannot remove the index entries of claimed jobs, and each
-- claim would read all of them. So claims start at the floor. A claimable job below it can only be one whose transaction
-- had not committed when the floor was raised, or one whose row was locked; every tick searches for both, from "settled" on.
--
-- Why settled is proven. Every transaction that makes a job claimable takes a transaction id first, and only then reads
-- the clock (new jobs) or the floor (jobs that come back), and places the job no lower. A mark is a floor that a tick has
-- committed. A tick begins an era with its own transaction id, taken after the tick before it had committed, so a
-- transaction with a higher id sees the floors of that tick. The next era begins when all transactions with lower ids have
-- ended. So two eras after a mark was written, every transaction either has ended and is visible to this tick, or will
-- place jobs no lower than the mark: the mark, or the oldest job that still waits below it, becomes settled.
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
    -- Jobs get their run_at shortly before they commit: with a floor right behind the clock, all of them would lie below it.
    c_margin constant interval := '250 milliseconds';
    -- The floor steps over locked rows only if there are this many: so a small claim that rolls back is found at once.
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
    v_claimed treadle.lane[];
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

    if v_last > v_now - p_interval and v_last <= v_now or not treadle.is_read_committed() then
        return 0;
    end if;

    -- One tick at a time, until it commits. Not by a row lock: that would take a transaction id before the lock is granted.
    if not pg_try_advisory_xact_lock(hashtext('treadle tick'), hashoid('treadle.horizon'::regclass)) then
        return 0;
    end if;

    -- The id of a transaction that has already written is too old to begin an era.
    if pg_current_xact_id_if_assigned() is not null then
        return 0;
    end if;

    v_own := pg_current_xact_id();
    v_snapshot := pg_current_snapshot();

    select horizon.era, horizon.mark_xid, horizon.look_after
    into v_era, v_mark_xid, v_look_after
    from treadle.horizon as horizon;

    -- A mark from the future comes from a dump of another server; start again.
    if pg_snapshot_xmin(v_snapshot) > v_mark_xid or v_own < v_mark_xid then
        v_era := v_era + 1;
        v_mark_xid := v_own;
    end if;

    -- The ids of running transactions, which may have locked rows: those in the snapshot, and those between its end and
    -- our own. Only a hint: a job that is skipped by mistake lies above settled, and the next tick finds it.
    select array_agg((running.number % 4294967296)::text::xid)
    into v_running
    from (
        select listed::text::bigint as number
        from pg_snapshot_xip(v_snapshot) as listed
        union all
        select generate_series(pg_snapshot_xmax(v_snapshot)::text::bigint, v_own::text::bigint - 1)
    ) as running;

    -- With an old snapshot open, the index of claimed jobs is full of dead entries, too. So at most 2 % of the time is
    -- spent on reading it.
    if v_now >= v_look_after then
        v_began := clock_timestamp();
        select array_agg(distinct claimed.lane)
        into v_claimed
        from (
            select row(job.queue, job.job_type, job.priority)::treadle.lane as lane
            from treadle.jobs as job
            where job.status in ('claimed', 'running')
            limit 1000
        ) as claimed;
        v_look_after := clock_timestamp() + 50 * (clock_timestamp() - v_began);
    end if;

    update treadle.horizon
    set era = v_era,
        mark_xid = v_mark_xid,
        look_after = v_look_after;

    for v_lane in
        with busy as materialized (
            -- The lanes of jobs that were claimed or finished since the last tick, from a sample of those jobs.
            (
                select row(job.queue, job.job_type, job.priority)::treadle.lane as lane
                from treadle.jobs as job
                where job.status = 'completed'
                  and job.finished_at >= v_last - c_margin
                order by job.finished_at desc
                limit 1000
            )
            union
            (
                select row(job.queue, job.job_type, job.priority)::treadle.lane as lane
                from treadle.jobs as job
                where job.status = 'failed'
                  and job.finished_at >= v_last - c_margin
                order by job.finished_at desc
                limit 1000
            )
            union
            select row(claimed.queue, claimed.job_type, claimed.priority)::treadle.lane
            from unnest(v_claimed) as claimed
        ),
        lane as materialized (
            select
                known.lane,
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
                    row(listed.queue, listed.job_type, listed.priority)::treadle.lane as lane, listed.id, listed.opened_at,
                    listed.floor, listed.settled, listed.mark, listed.mark_era, listed.close_era, false as busy
                from treadle.lanes as listed
                union all
                select busy.lane, null, null, null, null, null, null, null, true
                from busy
            ) as known
            group by known.lane
            having count(known.id) > 0
        ),
        watched as materialized (
            -- A lane that is not busy and can have no late jobs seldom changes: of thousands of such lanes, each tick reads
            -- some in turn.
            select *
            from lane
            where lane.busy
               or lane.merge
               or lane.floor > lane.settled
               or (lane.id + (extract(epoch from v_now) * 2)::bigint)
                    % greatest(1, (select count(*) from lane) / c_watched) = 0
        )
        select lane.*, oldest.run_at as oldest, unlocked.run_at as unlocked
        from watched as lane
        left join lateral (
            select job.run_at
            from treadle.lane_jobs(lane.lane, lane.settled) as job
            order by job.run_at
            limit 1
        ) as oldest on true
        left join lateral (
            select job.run_at
            from treadle.lane_jobs(lane.lane, oldest.run_at) as job
            where v_running is not null
              and not job.locked_by = any (v_running)
            order by job.run_at
            limit 1
        ) as unlocked on true
    loop
        v_floor := v_lane.floor;
        v_settled := v_lane.settled;
        v_mark := v_lane.mark;
        v_mark_era := v_lane.mark_era;
        v_close_era := v_lane.close_era;

        -- Many rows at the head are locked by other transactions: step over them.
        if v_running is not null
            and v_lane.oldest <= v_now
            and v_lane.unlocked is distinct from v_lane.oldest
            and c_locked < (
                select count(*)
                from (
                    select
                    from treadle.lane_jobs(v_lane.lane, v_lane.oldest) as job
                    where job.run_at < coalesce(v_lane.unlocked, 'infinity')
                    limit c_locked + 1
                ) as locked
            )
        then
            v_floor := least(coalesce(v_lane.unlocked, v_now - c_margin), v_now - c_margin);
        -- A late commit, or jobs that were claimed from the head: follow the oldest job. An idle lane is not changed. A lane
        -- whose jobs are all due later is changed only once a minute: they may be jobs that snooze again and again.
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

        -- Never below settled, even if the clock was set back.
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

        -- A lane that was not used for a day is marked for deletion; an enqueue after that lists the lane again. Two eras
        -- later no transaction is left that relied on this row.
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
            -- Only the rows that were read: another transaction may rely on one that was added since.
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
    is 'Maintains the lanes; workers call it about every 0.5 s. Returns how many lanes it changed, 0 if another tick was just made.';
