-- After jobs were inserted: makes sure that their lanes are listed, and that no job lies where no claim would find it.
-- Runs with the rights of its owner: a role that may only enqueue cannot read lanes or change run_at.
create or replace function treadle.register_lanes() returns trigger
language plpgsql
security definer
as $$
declare
    v_fresh constant boolean := treadle.is_read_committed();
    v_missing boolean;
    v_below boolean;
    v_oldest timestamptz;
begin
    select
        bool_or(not entry.is_listed),
        bool_or(arrived.oldest < entry.floor),
        min(arrived.oldest)
    into v_missing, v_below, v_oldest
    from (
        select
            row(inserted.queue, inserted.job_type, inserted.priority)::treadle.lane as lane,
            min(inserted.run_at) as oldest
        from new_jobs as inserted
        group by inserted.queue, inserted.job_type, inserted.priority
    ) as arrived
    cross join lateral treadle.lane_entry(arrived.lane, arrived.oldest) as entry;

    -- No "on conflict": it would wait for the uncommitted lane of another transaction. The tick merges a lane that is
    -- listed twice. An older snapshot cannot know whether the lane it sees has become idle, so it adds its own.
    if v_missing or not v_fresh then
        insert into treadle.lanes (queue, job_type, priority)
        select arrived.queue, arrived.job_type, arrived.priority
        from (
            select inserted.queue, inserted.job_type, inserted.priority, min(inserted.run_at) as oldest
            from new_jobs as inserted
            group by inserted.queue, inserted.job_type, inserted.priority
        ) as arrived
        cross join lateral treadle.lane_entry(
            row(arrived.queue, arrived.job_type, arrived.priority)::treadle.lane, arrived.oldest
        ) as entry
        where not v_fresh
           or not entry.is_listed;
    end if;

    -- Dated back by hand, or by a server clock that was set back. An older snapshot does not see the floor, so it stays
    -- as far behind the clock as the floor does.
    if v_below or not v_fresh then
        update treadle.jobs as job
        set run_at = case when v_fresh then bound.floor else clock_timestamp() end
        from new_jobs as inserted
        left join lateral treadle.lane_floor(
            row(inserted.queue, inserted.job_type, inserted.priority)::treadle.lane
        ) as bound on true
        where job.id = inserted.id
          and inserted.run_at < case when v_fresh then bound.floor else clock_timestamp() - interval '250 milliseconds' end;
    end if;

    perform treadle.wake_workers(v_oldest);
    return null;
end
$$;

comment on function treadle.register_lanes() is 'Trigger: lists the lanes of inserted jobs.';

create or replace trigger register_lanes
    after insert on treadle.jobs
    referencing new table as new_jobs
    for each statement
    execute function treadle.register_lanes();
