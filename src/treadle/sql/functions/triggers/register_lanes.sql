-- After jobs were inserted: makes sure that their lanes are listed, and that no job lies where no claim would find it.
--
-- On an older snapshot (REPEATABLE READ, SERIALIZABLE) it reads no table: an older snapshot cannot know whether a lane that it
-- sees has become idle, so the transaction adds its own row, once. In SERIALIZABLE every read could also conflict with what
-- other enqueuers add: eight of them aborted each other in 37 % of their transactions.
--
-- Runs with the rights of its owner: a role that may only enqueue cannot read lanes or change run_at.
create or replace function treadle.register_lanes() returns trigger
language plpgsql
security definer
as $$
declare
    c_behind constant interval := '250 milliseconds'; -- as far as the floor is: see public/tick.sql
    -- The lanes that this transaction has added. The name has the number of the schema's table in it.
    c_added constant text := 'treadle' || '.lanes_added_' || 'treadle.lanes'::regclass::oid;
    v_added treadle.lane[];
    v_new treadle.lane[];
    v_missing boolean;
    v_below boolean;
    v_oldest timestamptz;
    v_limited boolean;
    v_placed boolean;
begin
    if not treadle.is_read_committed() then
        v_added := nullif(current_setting(c_added, true), '');

        select array_agg(distinct inserted.lane) filter (where inserted.lane = any (v_added) is not true), min(inserted.run_at)
        into v_new, v_oldest
        from (
            select row(job.queue, job.job_type, job.priority, job.partition)::treadle.lane as lane, job.run_at
            from new_jobs as job
        ) as inserted;

        if v_new is not null then
            insert into treadle.lanes (queue, job_type, priority, partition)
            select added.queue, added.job_type, added.priority, added.partition
            from unnest(v_new) as added;
            -- Undone with the rows if a savepoint is rolled back.
            perform set_config(c_added, (v_added || v_new)::text, true);
        end if;

        -- Dated back by hand, or by a server clock that was set back.
        if v_oldest < clock_timestamp() - c_behind then
            update treadle.jobs as job
            set run_at = clock_timestamp()
            from new_jobs as inserted
            where job.id = inserted.id
              and inserted.run_at < clock_timestamp() - c_behind;
        end if;

        perform treadle.wake_workers(v_oldest);
        if exists (select from treadle.limit_targets) then
            perform treadle.set_partitions(array(select inserted.id from new_jobs as inserted where inserted.partition = ''));
        end if;
        return null;
    end if;

    -- Usually it is a single job, due now, in a lane that is listed. Floors stay behind the clock, so it is above the floor, and
    -- one short query is enough (measured: a sixth less processor time for the whole enqueue).
    select
        first.run_at,
        entry.is_listed
            and first.run_at >= clock_timestamp() - c_behind
            and not exists (select from new_jobs offset 1)
            and not exists (select from treadle.limit_targets)
    into v_oldest, v_placed
    from (
        select job.queue, job.job_type, job.priority, job.partition, job.run_at
        from new_jobs as job
        limit 1
    ) as first
    cross join lateral treadle.lane_entry(
        row(first.queue, first.job_type, first.priority, first.partition)::treadle.lane, first.run_at
    ) as entry;

    if v_placed then
        perform treadle.wake_workers(v_oldest);
        return null;
    end if;

    select
        bool_or(not entry.is_listed),
        bool_or(arrived.oldest < entry.floor),
        min(arrived.oldest),
        (select exists (select from treadle.limit_targets))
    into v_missing, v_below, v_oldest, v_limited
    from (
        select
            row(inserted.queue, inserted.job_type, inserted.priority, inserted.partition)::treadle.lane as lane,
            min(inserted.run_at) as oldest
        from new_jobs as inserted
        group by inserted.queue, inserted.job_type, inserted.priority, inserted.partition
    ) as arrived
    cross join lateral treadle.lane_entry(arrived.lane, arrived.oldest) as entry;

    -- No "on conflict": it would wait for the uncommitted lane of another transaction. The tick merges a lane that is
    -- listed twice.
    if v_missing then
        insert into treadle.lanes (queue, job_type, priority, partition)
        select arrived.queue, arrived.job_type, arrived.priority, arrived.partition
        from (
            select inserted.queue, inserted.job_type, inserted.priority, inserted.partition, min(inserted.run_at) as oldest
            from new_jobs as inserted
            group by inserted.queue, inserted.job_type, inserted.priority, inserted.partition
        ) as arrived
        cross join lateral treadle.lane_entry(
            row(arrived.queue, arrived.job_type, arrived.priority, arrived.partition)::treadle.lane, arrived.oldest
        ) as entry
        where not entry.is_listed;
    end if;

    -- Dated back by hand. (If the floor is ahead of the clock, then that was set back: the next tick removes such floors.)
    if v_below then
        update treadle.jobs as job
        set run_at = placed.run_at
        from (
            select
                inserted.id,
                -- They keep their order.
                bound.floor + interval '1 microsecond'
                    * (row_number() over (order by inserted.run_at, inserted.id) - 1) as run_at
            from new_jobs as inserted
            cross join lateral treadle.lane_floor(
                row(inserted.queue, inserted.job_type, inserted.priority, inserted.partition)::treadle.lane
            ) as bound
            where inserted.run_at < bound.floor
              and bound.floor <= clock_timestamp()
        ) as placed
        where job.id = placed.id;
    end if;

    perform treadle.wake_workers(v_oldest);
    if v_limited then
        -- Inserted by hand.
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

create or replace trigger register_lanes
    after insert on treadle.jobs
    referencing new table as new_jobs
    for each statement
    execute function treadle.register_lanes();
