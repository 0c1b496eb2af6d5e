-- After jobs were inserted: makes sure that their lanes are listed, and that no job lies where no claim would find it.
--
-- A session remembers in settings which lanes it has seen active, and looks them up again when the epoch has moved: a sequence,
-- which whatever makes a lane idle or deletes it moves before it commits (see move_epoch.sql). This transaction has its id before it
-- reads the epoch. So if the epoch has not moved, this transaction is one that saw the lane active: if the lane becomes idle
-- before the job is committed, the tick examines it (see public/tick.sql). What is being changed is not remembered: the epoch may
-- have moved already.
--
-- The settings can be forged, by a role that then delays only what it enqueues itself: the tick lists the lanes of such jobs, one
-- after the other.
--
-- On an older snapshot (REPEATABLE READ, SERIALIZABLE) it reads no table: an older snapshot cannot know whether a lane that it
-- sees has become idle, so the transaction adds its own row. In SERIALIZABLE every read could also conflict with what
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
    -- The names of settings are put together so that they do not change with the schema.
    c_lane constant text := 'treadle' || '.lane_';
    -- Before any query reads the lanes.
    v_epoch constant text :=
        'treadle.lane_epoch'::regclass::oid || ' ' || coalesce(pg_sequence_last_value('treadle.lane_epoch'::regclass), 0) || ' ';
    v_sees_all constant boolean := treadle.is_read_committed();
    v_unknown treadle.lane[];
    v_lockers xid[];
    v_oldest timestamptz;
    v_bare boolean;
begin
    select
        array_agg(arrived.lane) filter (
            where current_setting(c_lane || (hashtext(arrived.lane::text) & 63), true) is distinct from v_epoch || arrived.lane::text
        ),
        min(arrived.oldest),
        bool_or((arrived.lane).partition = '')
    into v_unknown, v_oldest, v_bare
    from (
        select row(job.queue, job.job_type, job.priority, job.partition)::treadle.lane as lane, min(job.run_at) as oldest
        from new_jobs as job
        group by job.queue, job.job_type, job.priority, job.partition
    ) as arrived;

    if v_unknown is not null then
        -- No "on conflict": it would wait for the uncommitted lane of another transaction. The tick merges a lane that is
        -- listed twice.
        insert into treadle.lanes (queue, job_type, priority, partition)
        select arrived.queue, arrived.job_type, arrived.priority, arrived.partition
        from (
            select job.queue, job.job_type, job.priority, job.partition, min(job.run_at) as oldest
            from new_jobs as job
            group by job.queue, job.job_type, job.priority, job.partition
        ) as arrived
        cross join lateral (select row(arrived.queue, arrived.job_type, arrived.priority, arrived.partition)::treadle.lane) as its (lane)
        where its.lane = any (v_unknown)
          and (not v_sees_all or not (select entry.is_listed from treadle.lane_entry(its.lane, arrived.oldest) as entry));

        -- Rows stay marked by who locked them last: those that still run may be changing them. (Whoever locks one after the epoch was
        -- read moves it later.) The condition is written so that only the index of lanes matches, not that of all active ones.
        select array_agg(known.xmax)
        into v_lockers
        from unnest(v_unknown) as each
        cross join lateral (
            select known.xmax
            from treadle.lanes as known
            where v_sees_all
              and treadle.is_in_lane(
                    known.queue, known.job_type, known.priority, known.partition,
                    row(each.queue, each.job_type, each.priority, each.partition)::treadle.lane
                  )
              and coalesce(known.idle_xid, '0') = '0'
            offset 0
        ) as known
        where known.xmax <> '0';
        if v_lockers is not null then
            v_lockers := array(select lock.transactionid from pg_locks as lock where lock.transactionid = any (v_lockers));
        end if;

        -- Undone with the rows if a savepoint is rolled back.
        perform set_config(c_lane || (hashtext(seen.lane::text) & 63), v_epoch || seen.lane::text, false)
        from (
            select row(each.queue, each.job_type, each.priority, each.partition)::treadle.lane as lane
            from unnest(v_unknown) as each
        ) as seen
        cross join lateral (
            select bool_or(known.xmax <> all (coalesce(v_lockers, '{}'))) as steady
            from treadle.lanes as known
            where v_sees_all
              and treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, seen.lane)
              and coalesce(known.idle_xid, '0') = '0'
        ) as entry
        where entry.steady
           or not v_sees_all;
    end if;

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

comment on function treadle.register_lanes() is 'Trigger: lists the lanes of inserted jobs.';

-- Not for an INSERT of enqueue() that has looked already. (The setting is written so that its name is the same in every schema.)
create or replace trigger register_lanes
    after insert on treadle.jobs
    referencing new table as new_jobs
    for each statement
    when (current_setting(E'treadle\x2elisted', true) is distinct from 'on')
    execute function treadle.register_lanes();
