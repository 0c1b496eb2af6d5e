-- Before a job becomes claimable again (retry, release, recovery, freed by its key, moved to another lane, by
-- whatever statement): it keeps its age, but never lies below the floor, where no claim would look.
create or replace function treadle.enter_lane() returns trigger
language plpgsql
as $$
declare
    v_floor timestamptz;
    v_open boolean;
begin
    -- The transaction's number first, then a fresh look: the tick relies on that order (see tick.sql).
    perform pg_current_xact_id();

    if treadle.reads_fresh() then
        select max(lane.floor), bool_or(lane.close_era is null)
        into v_floor, v_open
        from treadle.lanes as lane
        where lane.job_type = new.job_type
          and lane.queue = new.queue
          and lane.priority = new.priority;
    else
        v_floor := clock_timestamp();
    end if;

    if v_open is not true then
        insert into treadle.lanes (queue, job_type, priority)
        values (new.queue, new.job_type, new.priority);
    end if;

    new.run_at := greatest(new.run_at, v_floor);
    perform treadle.ring(new.run_at);
    return new;
end
$$;

comment on function treadle.enter_lane() is 'Trigger: places a job that becomes claimable at or above its lane''s floor.';

create or replace trigger enter_lane
    before update on treadle.jobs
    for each row
    when (
        new.status = 'pending'
        and new.holds = 0
        and new.attempts < new.max_attempts
        and (
            (old.status = 'pending' and old.holds = 0 and old.attempts < old.max_attempts) is not true
            or old.run_at > new.run_at
            or (old.queue, old.job_type, old.priority) <> (new.queue, new.job_type, new.priority)
        )
    )
    execute function treadle.enter_lane();
