-- After jobs were inserted: makes sure that their lanes are listed, and that no job lies where no claim would find it.
-- Runs with the rights of its owner: a role that may only enqueue cannot read lanes or change run_at.
create or replace function treadle.register_lanes() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fresh constant boolean := treadle.is_read_committed();
    v_missing boolean;
    v_below boolean;
    v_oldest timestamptz;
begin
    select
        bool_or(lane.is_open is not true),
        bool_or(arrived.oldest < lane.floor),
        min(arrived.oldest)
    into v_missing, v_below, v_oldest
    from (
        select
            row(inserted.queue, inserted.job_type, inserted.priority)::treadle.lane as lane,
            min(inserted.run_at) as oldest
        from new_jobs as inserted
        group by inserted.queue, inserted.job_type, inserted.priority
    ) as arrived
    left join lateral treadle.lane_state(arrived.lane) as lane on true;

    -- No "on conflict": it would wait for the uncommitted lane of another transaction. The tick merges a lane that is
    -- listed twice. An older snapshot cannot know whether the lane it sees is about to be deleted, so it adds its own.
    if v_missing or not v_fresh then
        insert into treadle.lanes (queue, job_type, priority)
        select distinct inserted.queue, inserted.job_type, inserted.priority
        from new_jobs as inserted
        where not v_fresh
           or not exists (
                select
                from treadle.lanes as known
                where treadle.is_in_lane(
                        known.queue, known.job_type, known.priority,
                        row(inserted.queue, inserted.job_type, inserted.priority)::treadle.lane
                      )
                  and known.close_era is null
           );
    end if;

    -- Dated back by hand, or by a server clock that was set back. An older snapshot does not see the floor, so it stays
    -- as far behind the clock as the floor does.
    if v_below or not v_fresh then
        update treadle.jobs as job
        set run_at = case when v_fresh then known.floor else clock_timestamp() end
        from new_jobs as inserted
        join treadle.known_lanes() as known
            on treadle.is_in_lane(inserted.queue, inserted.job_type, inserted.priority, known.lane)
        where job.id = inserted.id
          and inserted.run_at < case when v_fresh then known.floor else clock_timestamp() - interval '250 milliseconds' end;
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
