-- Trigger: after jobs were inserted, makes sure that their lanes are listed, and that no job lies where no claim would
-- find it.
--
-- A session remembers in settings which lanes it has seen active, and looks them up again when the epoch has moved: a
-- sequence, which whatever makes a lane dormant or deletes it moves before it commits (see move_epoch.sql). This
-- transaction has its id before it reads the epoch. So if the epoch has not moved, this transaction is one that saw the
-- lane active: if the lane becomes dormant before the job is committed, the tick examines it. What is being changed is
-- not remembered: the epoch may have moved already. The settings can be forged, by a role that then delays only what it
-- enqueues itself: the tick lists the lanes of such jobs, one after the other.
--
-- On an older snapshot (REPEATABLE READ, SERIALIZABLE) it reads no table: it cannot know whether a lane that it sees
-- has become dormant, so the transaction adds its own row. In SERIALIZABLE every read could also conflict with what
-- other enqueuers add: eight of them aborted each other in 37 % of their transactions.
--
-- Runs with the rights of its owner: a role that may only enqueue cannot read lanes or change run_at.
create or replace function treadle.register_lanes() returns trigger
language plpgsql
security definer
set treadle.plan = nested_loops
as $$
declare
    c_behind constant interval := '250 milliseconds'; -- as far as the floor is: see public/tick.sql
    v_sees_all constant boolean := treadle.is_read_committed();
    -- Before any query reads the lanes.
    v_epoch constant text :=
        'treadle.lane_epoch'::regclass::oid || ' ' || coalesce(pg_sequence_last_value('treadle.lane_epoch'::regclass), 0) || ' ';
    v_arrived record;
    v_lane treadle.lane;
    v_setting text;
    v_seen text;
    v_listed boolean;
    v_steady boolean;
    v_lockers xid[];
    v_oldest timestamptz;
    v_bare boolean := false;
begin
    for v_arrived in
        select job.queue, job.job_type, job.priority, job.partition, min(job.run_at) as oldest
        from new_jobs as job
        group by job.queue, job.job_type, job.priority, job.partition
    loop
        v_oldest := least(v_oldest, v_arrived.oldest);
        v_bare := v_bare or v_arrived.partition = '';
        v_lane := row(v_arrived.queue, v_arrived.job_type, v_arrived.priority, v_arrived.partition);
        v_seen := v_lane::text;
        -- The name is put together so that it does not change with the schema.
        v_setting := 'treadle' || '.lane_' || (hashtext(v_seen) & 63);
        continue when current_setting(v_setting, true) = v_epoch || v_seen;

        v_listed := false;
        if v_sees_all then
            select
                bool_or(treadle.is_listed(known.dormant_xid, known.limit_name) or known.wakes_at <= v_arrived.oldest),
                bool_or(treadle.is_listed(known.dormant_xid, known.limit_name) and known.xmax = '0'),
                array_agg(known.xmax) filter (where treadle.is_listed(known.dormant_xid, known.limit_name))
            into v_listed, v_steady, v_lockers
            from treadle.lanes as known
            where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, v_lane);
        end if;

        if v_listed is not true then
            -- No "on conflict": it would wait for the uncommitted lane of another transaction. The tick merges a lane that is
            -- listed twice.
            insert into treadle.lanes (queue, job_type, priority, partition)
            values (v_arrived.queue, v_arrived.job_type, v_arrived.priority, v_arrived.partition);
            v_steady := true;
        elsif not v_steady and v_lockers is not null then
            -- Rows stay marked by who locked them last. Those that still run may be changing them.
            v_lockers := array(select lock.transactionid from pg_locks as lock where lock.transactionid = any (v_lockers));
            select bool_or(treadle.is_listed(known.dormant_xid, known.limit_name) and known.xmax <> all (v_lockers))
            into v_steady
            from treadle.lanes as known
            where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, v_lane);
        end if;

        if v_steady then
            -- Undone with the rows if a savepoint is rolled back.
            v_seen := set_config(v_setting, v_epoch || v_seen, false);
        end if;
    end loop;

    -- Dated back, by hand or by a server clock that was set back.
    if v_oldest < clock_timestamp() - c_behind then
        update treadle.jobs as job
        set run_at = placed.run_at
        from (
            select
                inserted.id,
                case
                    when not v_sees_all then clock_timestamp()
                    -- They keep their order.
                    else bound.floor + interval '1 microsecond' * (row_number() over (order by inserted.run_at, inserted.id) - 1)
                end as run_at
            from new_jobs as inserted
            left join lateral treadle.lane_floor(
                row(inserted.queue, inserted.job_type, inserted.priority, inserted.partition)::treadle.lane
            ) as bound on v_sees_all
            where case
                when v_sees_all then inserted.run_at < bound.floor and bound.floor <= clock_timestamp()
                else inserted.run_at < clock_timestamp() - c_behind
            end
        ) as placed
        where job.id = placed.id;
    end if;

    perform treadle.wake_workers(v_oldest);

    -- Inserted by hand.
    if v_bare and exists (select from treadle.limit_targets) then
        perform treadle.set_partitions(array_agg(inserted.id))
        from new_jobs as inserted
        join (
            select distinct other.job_type, other.queue
            from new_jobs as other
            where other.partition = ''
        ) as kind
            on kind.job_type = inserted.job_type
           and kind.queue = inserted.queue
        where inserted.partition = ''
          and treadle.partition_parts(kind.job_type, kind.queue) <> '{}'
        having count(*) > 0;
    end if;
    return null;
end
$$;

-- Not for an INSERT of enqueue() that has looked already. (The setting is written so that its name is the same in every schema.)
create or replace trigger register_lanes
    after insert on treadle.jobs
    referencing new table as new_jobs
    for each statement
    when (current_setting(E'treadle\x2elisted', true) is distinct from 'on')
    execute function treadle.register_lanes();
