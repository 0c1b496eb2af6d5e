-- After jobs were inserted: see that their lanes exist, and that none lies where no claim would look.
-- Run as its owner: who may only enqueue cannot see lanes, nor change when a job is due.
create or replace function treadle.register_lanes() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_fresh constant boolean := treadle.reads_fresh();
    v_missing boolean;
    v_below boolean;
    v_oldest timestamptz;
begin
    select
        bool_or(lane.open is not true),
        bool_or(arrived.oldest < lane.floor),
        min(arrived.oldest)
    into v_missing, v_below, v_oldest
    from (
        select fresh.queue, fresh.job_type, fresh.priority, min(fresh.run_at) as oldest
        from new_jobs as fresh
        group by fresh.queue, fresh.job_type, fresh.priority
    ) as arrived
    left join lateral (
        select max(lane.floor) as floor, bool_or(lane.close_era is null) as open
        from treadle.lanes as lane
        where lane.job_type = arrived.job_type
          and lane.queue = arrived.queue
          and lane.priority = arrived.priority
    ) as lane on true;

    -- No "on conflict": it would wait for a stranger's uncommitted lane. A lane added twice is merged by the tick.
    -- An old snapshot cannot know whether the lane it sees is about to be deleted, so it adds its own.
    if v_missing or not v_fresh then
        insert into treadle.lanes (queue, job_type, priority)
        select distinct fresh.queue, fresh.job_type, fresh.priority
        from new_jobs as fresh
        where not v_fresh
           or not exists (
                select
                from treadle.lanes as lane
                where lane.job_type = fresh.job_type
                  and lane.queue = fresh.queue
                  and lane.priority = fresh.priority
                  and lane.close_era is null
           );
    end if;

    -- Dated back by hand, or by a server clock that was set back. An old snapshot does not see the floor; it keeps
    -- as far behind the clock as the floor does.
    if v_below or not v_fresh then
        update treadle.jobs as job
        set run_at = case when v_fresh then lane.floor else clock_timestamp() end
        from new_jobs as fresh
        join (
            select queue, job_type, priority, max(floor) as floor
            from treadle.lanes
            group by queue, job_type, priority
        ) as lane using (queue, job_type, priority)
        where job.id = fresh.id
          and fresh.run_at < case when v_fresh then lane.floor else clock_timestamp() - interval '250 milliseconds' end;
    end if;

    perform treadle.ring(v_oldest);
    return null;
end
$$;

comment on function treadle.register_lanes() is 'Trigger: sees that the lanes of inserted jobs exist.';

create or replace trigger register_lanes
    after insert on treadle.jobs
    referencing new table as new_jobs
    for each statement
    execute function treadle.register_lanes();
