-- Before a job becomes claimable again, by whatever statement (a retry, a release, a recovery, an unblocked key, a move to
-- another lane): the job keeps its age, but is never placed below the floor, where no claim would find it.
--
-- A finished job that is revived is unblocked first: the job that would have unblocked it may be gone. Both are in one
-- trigger because the order matters, and PostgreSQL fires triggers in the order of their names.
create or replace function treadle.enter_lane() returns trigger
language plpgsql
as $$
declare
    v_lane constant treadle.lane := row(new.queue, new.job_type, new.priority);
    v_floor timestamptz;
    v_open boolean;
begin
    if old.status in ('completed', 'failed', 'cancelled') then
        new.holds := new.holds & ~treadle.blocked_by_key();
        if treadle.is_claimable(new.status, new.holds, new.attempts, new.max_attempts) is not true then
            return new;
        end if;
    end if;

    -- First the transaction id, then a new snapshot: the tick relies on that order (see public/tick.sql).
    perform pg_current_xact_id();

    if treadle.is_read_committed() then
        select lane.floor, lane.is_open
        into v_floor, v_open
        from treadle.lane_state(v_lane) as lane;
    else
        v_floor := clock_timestamp();
    end if;

    if v_open is not true then
        insert into treadle.lanes (queue, job_type, priority)
        values (v_lane.queue, v_lane.job_type, v_lane.priority);
    end if;

    new.run_at := greatest(new.run_at, v_floor);
    perform treadle.wake_workers(new.run_at);
    return new;
end
$$;

comment on function treadle.enter_lane() is 'Trigger: places a job that becomes claimable at or above the floor of its lane; a revived job is unblocked first.';

-- The condition writes is_claimable(), is_in_lane() and is_blocked_by_key() out. PostgreSQL prepares it for every UPDATE of
-- jobs, and would inline the functions each time (measured: a quarter of the time of claims and completions).
-- tests/queue/test_claimable.py compares it with the predicate of idx_jobs_claimable.
create or replace trigger enter_lane
    before update on treadle.jobs
    for each row
    when (
        (new.status = 'pending' and new.holds = 0 and new.attempts < new.max_attempts)
        and (
            (old.status = 'pending' and old.holds = 0 and old.attempts < old.max_attempts) is not true
            or old.run_at > new.run_at
            or (old.queue, old.job_type, old.priority) <> (new.queue, new.job_type, new.priority)
        )
        or new.holds & 1 = 1
        and old.status in ('completed', 'failed', 'cancelled')
        and new.status in ('pending', 'claimed', 'running')
    )
    execute function treadle.enter_lane();
