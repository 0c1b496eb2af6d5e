-- Maintains the lanes: raises their floors, finds jobs below them that were committed late, and makes unused lanes
-- dormant. Workers call it about every 0.5 s; a claim calls it if nobody did. Returns how many lanes it changed.
--
-- Why a floor. While a transaction is open anywhere, PostgreSQL may not remove the index entries of claimed jobs, and
-- each claim would read all of them. So claims start at the floor of the lane. A claimable job below it can only be one
-- whose transaction had not committed when the floor was raised, or one whose row was locked by a running transaction.
--
-- How such jobs are found. A transaction that makes a job claimable takes its transaction id first, and only then reads
-- the clock (new jobs) or the floor (jobs that come back), and places the job no lower. A tick takes a snapshot first,
-- and only then its own id. So a transaction with a higher id sees everything that the tick saw, the floors included.
-- Each tick stores its snapshot: which transactions were running. The next one searches only below the floors that
-- transactions which have ended since then may not have seen: usually the floors of the last second. A transaction that
-- stays open for hours is searched for once, when it ends. (While it runs, nobody sees its jobs.)
--
-- Dormant lanes. Claims search active lanes only. A lane without due jobs becomes dormant after some time, and is
-- deleted when no running transaction can have seen it active. An enqueue into a dormant lane lists the lane again. A
-- transaction that saw it active and commits later is found in the same way as a job below the floor.
--
-- If the clock is behind the last tick, it was set back. Then no floor is valid, and jobs that were due before the jump
-- are due later by the new clock: see move_due_jobs(). Transactions that were open then commit such jobs later, so what
-- has ended since the last tick decides about that, too. See decision 27.
create or replace function treadle.tick(p_interval interval default '400 milliseconds') returns int
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    -- Jobs get their run_at shortly before they commit: with a floor right behind the clock, all of them would lie below it.
    c_margin constant interval := '250 milliseconds';
    -- A lane without due jobs becomes dormant after this time; if many lanes are active, sooner.
    c_unused constant interval := '1 minute';
    c_unused_soon constant interval := '2 seconds';
    c_many constant int := 100;
    -- A dormant lane becomes active this long before its first job is due.
    c_ahead constant interval := '10 seconds';
    -- Each tick examines so many of the lanes that are active or wait for a limit, the next ones in turn; and those that have changed.
    c_examined constant int := 300;
    -- How long to wait for another tick that does not end.
    c_wait constant interval := '2 seconds';
    -- For each index entry that a search of doubtful use has read, the next one is put off for this long: at most a few
    -- percent of the time is spent on them.
    c_entry constant interval := '5 microseconds';
    -- Not all jobs were moved after the clock was set back: see ticks.set_back_until.
    c_more constant xid8 := '9223372036854775807';
    v_now constant timestamptz := clock_timestamp();
    v_clock timestamptz;
    v_own xid8;
    v_snapshot pg_snapshot;
    v_last treadle.ticks;
    v_safe treadle.ticks;
    v_oldest treadle.ticks;
    v_running xid8[];
    v_lockers xid[];
    v_read bigint;
    v_claimed treadle.lane[];
    v_stray record;
    v_active int;
    v_all boolean; -- all lanes are examined
    v_examined bigint[];
    v_names varchar[]; -- the limits that they wait for
    v_keys varchar[];
    v_changed int;
    v_set_back boolean;
begin
    select to_timestamp(clock.last_value / 1000000.0)
    into v_clock
    from treadle.tick_clock as clock;

    if v_clock > v_now - p_interval and v_clock <= v_now or not treadle.is_read_committed() then
        return 0;
    end if;

    -- The order of snapshot and id matters: see above. A transaction that has already written took its id too early.
    if pg_current_xact_id_if_assigned() is not null then
        return 0;
    end if;

    -- One tick at a time is enough. But if there was none for long, a transaction that made one may stay open.
    if not pg_try_advisory_xact_lock(hashtext('treadle tick'), hashoid('treadle.ticks'::regclass))
        and v_clock > v_now - c_wait
        and v_clock <= v_now
    then
        return 0;
    end if;

    v_snapshot := pg_current_snapshot();
    v_own := pg_current_xact_id();

    select tick.*
    into v_last
    from treadle.ticks as tick
    order by tick.xid desc
    limit 1;

    -- Another tick has overtaken this one.
    if v_last.xid > v_own and v_last.ticked_at > v_now - c_unused and v_last.ticked_at < v_now + c_unused then
        return 0;
    end if;

    -- A tick from the future comes from a dump of another server.
    if v_last.xid > v_own then
        perform treadle.forget_other_server();
        v_last := null;
    end if;

    -- Read again: the last tick may have been made since this function began.
    v_set_back := v_last.ticked_at > clock_timestamp() is true;
    if v_set_back then
        perform treadle.reset_floors(v_last.ticked_at, v_now);
        v_last.look_after := v_now;
        v_last.sweep_after := v_now;
        v_last.set_back_from := greatest(v_last.ticked_at, v_last.set_back_from);
        v_last.set_back_seen := v_last.xid;
    end if;

    v_safe := treadle.safe_tick(v_snapshot);
    v_running := array(select pg_snapshot_xip(v_snapshot));

    -- A floor may pass rows that these have locked: when one of them ends, a tick searches below the floors that it has
    -- not seen, this one included. (A row that a shorter transaction has locked will soon be claimed or unlocked.)
    v_lockers := array(
        select running::xid
        from unnest(v_running) as running
        where running < v_safe.xid
    );

    -- The newest tick that is older than every running transaction: all of them have seen what was visible to it.
    select tick.*
    into v_oldest
    from treadle.ticks as tick
    where tick.xid < pg_snapshot_xmin(v_snapshot)
    order by tick.xid desc
    limit 1;

    if v_last.set_back_from > v_now and (v_set_back or v_safe.xid < v_last.set_back_until) then
        v_last.set_back_until := case
            when treadle.move_due_jobs(
                    v_last.set_back_from, v_last.set_back_seen, v_now,
                    p_shift => v_set_back,
                    p_late => not v_set_back and v_last.set_back_until <> c_more
                 )
                then c_more
            else v_own
        end;
    end if;

    -- The lanes of claimed jobs, from a sample. With an old snapshot open, their index is full of dead entries, too: if many
    -- were read, the next ticks do without.
    if v_now >= v_last.look_after is not false then
        v_read := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_worker'::regclass);
        select array_agg(distinct claimed.lane)
        into v_claimed
        from (
            select row(job.queue, job.job_type, job.priority, job.partition)::treadle.lane as lane
            from treadle.jobs as job
            where job.status in ('claimed', 'running')
            limit 1000
        ) as claimed;
        v_read := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_worker'::regclass) - v_read;
        v_last.look_after := v_now + v_read * c_entry;
    end if;

    -- Jobs that no trigger has placed (logical replication, a restored dump): the first job of one lane after the other is
    -- compared with its floor. The same applies here.
    v_read := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass);
    select row(next.queue, next.job_type, next.priority, next.partition)::treadle.lane as lane, next.run_at
    into v_stray
    from treadle.lane_after(v_last.swept, v_lockers) as next
    where v_now >= v_last.sweep_after is not false;
    if found then
        v_read := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) - v_read;
        v_last.swept := case when v_stray.run_at is not null then v_stray.lane end;
        v_last.sweep_after := v_now + v_read * c_entry;

        insert into treadle.lanes (queue, job_type, priority, partition)
        select (v_stray.lane).queue, (v_stray.lane).job_type, (v_stray.lane).priority, (v_stray.lane).partition
        from treadle.lane_entry(v_stray.lane, v_stray.run_at) as entry
        where v_stray.run_at is not null
          and not entry.is_listed;
    end if;

    select
        array_agg(next.id), count(*) filter (where next.dormant_xid is null),
        array_agg(next.limit_name) filter (where next.limit_name is not null),
        array_agg(next.limit_key) filter (where next.limit_name is not null),
        coalesce(v_last.examined, 0) = 0 and count(*) < c_examined,
        case when count(*) = c_examined then max(next.id) else 0 end
    into v_examined, v_active, v_names, v_keys, v_all, v_last.examined
    from (
        select lane.id, lane.dormant_xid, lane.limit_name, lane.limit_key
        from treadle.lanes as lane
        where lane.id > coalesce(v_last.examined, 0)
          and treadle.is_listed(lane.dormant_xid, lane.limit_name)
        order by lane.id
        limit c_examined
    ) as next;

    insert into treadle.ticks (
        xid, ticked_at, next_xid, running, look_after, sweep_after, swept, examined, set_back_from, set_back_seen, set_back_until
    )
    values (
        v_own, v_now, pg_snapshot_xmax(v_snapshot), v_running, v_last.look_after, v_last.sweep_after, v_last.swept,
        v_last.examined, v_last.set_back_from, v_last.set_back_seen, v_last.set_back_until
    );

    -- After the clock was set back: what finished before that is not new.
    v_clock := least(v_clock, v_now);

    with busy as materialized (
        -- The lanes of jobs that were claimed or finished since the last tick, from a sample of those jobs.
        select job.queue, job.job_type, job.priority, job.partition
        from unnest(array['completed', 'failed']) as kind (status)
        cross join lateral (
            select job.queue, job.job_type, job.priority, job.partition
            from treadle.jobs as job
            where job.status in ('completed', 'failed', 'cancelled')
              and job.status = kind.status
              and job.finished_at >= v_clock - c_margin
              and job.finished_at <= v_now + c_ahead
            order by job.finished_at desc
            limit c_examined
        ) as job
        union
        select claimed.queue, claimed.job_type, claimed.priority, claimed.partition
        from unnest(v_claimed) as claimed
    ),
    examined as materialized (
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.id = any (v_examined)
        union
        -- Became dormant when a transaction that has ended since may have seen it active.
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.dormant_xid >= v_safe.next_xid
          and lane.limit_name is null
        union
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.dormant_xid = any (v_safe.running)
          and lane.limit_name is null
        union
        -- Due soon. The ticks up to the last one have seen those that were due before.
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.dormant_xid is not null
          and lane.limit_name is null
          and lane.wakes_at <= v_now + c_ahead
          and lane.wakes_at >= coalesce(least(v_last.ticked_at, v_now) - c_unused, '-infinity')
        union
        -- May have jobs below the floor.
        select known.queue, known.job_type, known.priority, known.partition
        from treadle.floors as known
        where not v_all
          and known.xid >= v_safe.next_xid
        union
        select busy.queue, busy.job_type, busy.priority, busy.partition
        from busy
        where not v_all
        union
        select (v_stray.lane).queue, (v_stray.lane).job_type, (v_stray.lane).priority, (v_stray.lane).partition
    ),
    state as materialized (
        select
            examined.lane,
            listed.*,
            coalesce(bound.floor, '-infinity') as floor,
            case when examined.lane = v_stray.lane then least(head.run_at, v_stray.run_at) else head.run_at end as head,
            -- A list that is hashed: to compare each lane with each would take as long as all the rest.
            ((examined.lane).queue, (examined.lane).job_type, (examined.lane).priority, (examined.lane).partition) in (
                select busy.queue, busy.job_type, busy.priority, busy.partition
                from busy
            ) as busy
        from (select row(each.queue, each.job_type, each.priority, each.partition)::treadle.lane as lane from examined as each) as examined
        cross join lateral (
            select
                coalesce(
                    min(known.id) filter (where known.dormant_xid is null),
                    min(known.id) filter (where known.limit_name is not null),
                    min(known.id)
                ) as id,
                array_agg(known.id) as ids,
                max(known.changed_at) as changed_at,
                bool_or(treadle.is_listed(known.dormant_xid, known.limit_name)) as listed,
                min(known.wakes_at) as wakes_at
            from treadle.lanes as known
            where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, examined.lane)
            having count(*) > 0
        ) as listed
        left join lateral treadle.lane_floor(examined.lane) as bound on true
        left join lateral treadle.safe_floor(examined.lane, v_safe) as safe on true
        left join lateral (
            select job.run_at
            from treadle.lane_jobs(examined.lane, coalesce(safe.floor, '-infinity')) as job
            where not job.locked_by = any (v_lockers)
            order by job.run_at
            limit 1
        ) as head on true
    ),
    decided as materialized (
        select
            state.*,
            case
                -- Committed late, or unlocked: claims must start there.
                when state.head < state.floor then state.head
                -- Written by a claim that began before the clock was set back.
                when state.floor > v_now then v_now - c_margin
                -- Jobs were claimed from the head, or all are locked. A dormant lane is not changed. A lane whose jobs are all
                -- due later is changed only once a minute: they may be jobs that snooze again and again.
                when state.busy
                    or state.head <= v_now and state.head > state.floor
                    or state.head > v_now and state.floor < v_now - interval '1 minute'
                    or state.head is null and v_lockers <> '{}' and exists (
                        select
                        from treadle.lane_jobs(state.lane, state.floor)
                    )
                    then greatest(state.floor, least(state.head, v_now - c_margin))
                else state.floor
            end as new_floor,
            case
                when state.listed then
                    not state.busy
                    and coalesce(state.head > v_now + c_unused, true)
                    and greatest(state.changed_at, state.floor)
                        < v_now - case when v_active > c_many then c_unused_soon else c_unused end
                else coalesce(state.head > v_now + c_ahead, true)
            end as new_dormant
        from state
    ),
    changed as materialized (
        select
            decided.*,
            decided.new_floor <> decided.floor as moved,
            -- Only then is a transaction that relies on the row affected, and dormant_xid must tell when that was.
            decided.listed = decided.new_dormant
            or decided.new_dormant and decided.head is distinct from decided.wakes_at as switched
        from decided
    ),
    written as (
        insert into treadle.floors (queue, job_type, priority, partition, floor, xid)
        select
            (changed.lane).queue, (changed.lane).job_type, (changed.lane).priority, (changed.lane).partition,
            changed.new_floor, v_own
        from changed
        where changed.moved
    ),
    locked as materialized (
        -- Not those that another tick changes, whose transaction is still open. And only the rows that were read:
        -- a transaction may rely on one that was added since.
        select lane.id
        from treadle.lanes as lane
        where lane.id = any (array(
                select unnest(changed.ids)
                from changed
                where changed.switched
                   or cardinality(changed.ids) > 1
              ))
        for update skip locked
    ),
    switched as (
        update treadle.lanes as lane
        set changed_at = v_now,
            dormant_xid = case when changed.new_dormant then v_own end,
            wakes_at = case when changed.new_dormant then changed.head end,
            limit_name = null,
            limit_key = null
        from changed
        where changed.switched
          and lane.id = changed.id
          and lane.id = any (array(select locked.id from locked))
    ),
    merged as (
        delete from treadle.lanes as lane
        where lane.id = any (array(
                select listed.id
                from changed
                cross join lateral unnest(changed.ids) as listed (id)
                join locked on locked.id = listed.id
                where listed.id <> changed.id
              ))
    )
    select count(*)
    into v_changed
    from changed
    where changed.moved
       or changed.switched
       or cardinality(changed.ids) > 1;

    v_changed := v_changed + treadle.delete_unused_lanes(v_oldest, c_examined);
    perform treadle.advance_waiting(5000) where exists (select from treadle.dependency_checks);
    perform treadle.roll_up_workflows(v_last.ticked_at - c_wait) where exists (select from treadle.member_changes);
    if exists (select from treadle.limit_targets) or exists (select from treadle.limit_openings) then
        perform treadle.review_limits(v_now, v_names, v_keys);
    end if;

    -- Every 15 seconds: what no running transaction needs. Not at every tick, because an old snapshot keeps what was
    -- deleted before, and it would be read again each time.
    if div(extract(epoch from v_now)::numeric, 15) <> div(extract(epoch from v_last.ticked_at)::numeric, 15) then
        perform treadle.forget_ticks(v_oldest);
        perform treadle.forget_limit_keys(v_now)
        where exists (select from treadle.limit_keys)
           or exists (select from treadle.unlisted_jobs);
        perform treadle.roll_up_workflows('-infinity') where exists (select from treadle.member_changes);
    end if;

    return v_changed;
end
$$;
