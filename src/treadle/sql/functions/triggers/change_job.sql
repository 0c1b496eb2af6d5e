-- Before a job is changed, by whatever statement:
--
-- - The key of an unfinished job cannot change: other jobs may be blocked behind it.
-- - A claim by hand gets a new lease number, as those of claim_jobs() do: otherwise an earlier claim under the same worker's
--   name would still be accepted. If the job was blocked behind its key, it no longer is: it unblocks the next when it ends.
--   Its expiry and a unique key for pending jobs end, as with every claim.
-- - A finished job that is revived is unblocked: the job that would have unblocked it may be gone.
-- - A job that becomes claimable (a retry, a release, a recovery, an unblocked key, a move to another lane) keeps its age,
--   but is never placed below the floor, where no claim would find it.
-- - A job that was due when it was claimed or created is still due when it comes back, if the clock was set back since.
-- - finished_at is set if the statement did not, as the specification's own UPDATE ... SET status = 'completed', so that
--   pruning finds the job.
create or replace function treadle.change_job() returns trigger
language plpgsql
as $$
declare
    v_lane treadle.lane;
    v_floor timestamptz;
    v_listed boolean;
    v_now timestamptz;
begin
    if old.key is distinct from new.key and old.status in ('pending', 'claimed', 'running') then
        raise exception 'the key of job % cannot be changed while it is %', old.id, old.status
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Cancel it, and enqueue a new job with the other key.';
    end if;

    if old.status = 'pending' and new.status in ('claimed', 'running') and new.lease = old.lease then
        new.lease := old.lease + 1;
        new.holds := new.holds & ~treadle.blocked_by_key();
        new.unique_key := case when old.unique_while is null then new.unique_key end;
        new.expires_at := null;
    end if;

    if new.status in ('completed', 'failed', 'cancelled') then
        new.finished_at := coalesce(new.finished_at, clock_timestamp());
        return new;
    end if;

    new.finished_at := null;
    if old.status in ('completed', 'failed', 'cancelled') then
        new.holds := new.holds & ~treadle.blocked_by_key();
    end if;

    if treadle.is_claimable(new.status, new.holds, new.attempts, new.max_attempts) is not true
        or treadle.is_claimable(old.status, old.holds, old.attempts, old.max_attempts)
        and old.run_at <= new.run_at
        and (old.queue, old.job_type, old.priority, old.partition) = (new.queue, new.job_type, new.priority, new.partition)
    then
        return new;
    end if;

    -- free_waiting() does the rest for many jobs at once.
    if current_setting('treadle' || '.placed', true) = 'on' then
        return new;
    end if;

    -- First the transaction id, then a new snapshot: the tick relies on that order (see public/tick.sql).
    perform pg_current_xact_id();
    v_now := clock_timestamp();
    v_lane := row(new.queue, new.job_type, new.priority, new.partition);

    if new.run_at > v_now
        and new.run_at = old.run_at
        and (
            old.status in ('claimed', 'running')
            or new.created_at > v_now and new.run_at <= new.created_at + interval '1 minute'
        )
    then
        new.run_at := v_now;
    end if;

    if treadle.is_read_committed() then
        select lane.floor, lane.is_listed
        into v_floor, v_listed
        from treadle.lane_entry(v_lane, new.run_at) as lane;
    else
        v_floor := v_now;
    end if;

    if v_listed is not true then
        insert into treadle.lanes (queue, job_type, priority, partition)
        values (v_lane.queue, v_lane.job_type, v_lane.priority, v_lane.partition);
    end if;

    -- A floor ahead of the clock is from before the clock was set back; the next tick removes it.
    new.run_at := greatest(new.run_at, case when v_floor <= v_now then v_floor end);
    perform treadle.wake_workers(new.run_at);
    return new;
end
$$;

comment on function treadle.change_job() is 'Trigger: guards the key of a job, sets finished_at, and places a job that becomes claimable at or above the floor of its lane.';

-- The condition only leaves out what every job goes through: a claim, reports of its worker, and its completion. PostgreSQL
-- parses it again for every UPDATE of jobs, so it is one short condition for all of the above (measured: with an exact
-- condition for each of them, the UPDATE of a claim takes a quarter longer).
create or replace trigger change_job
    before update on treadle.jobs
    for each row
    when (
        new.status = 'pending'
        or old.finished_at is not null
        or (new.status in ('completed', 'failed', 'cancelled')) <> (new.finished_at is not null)
        or old.key is distinct from new.key
        or old.status = 'pending' and new.lease = old.lease
    )
    execute function treadle.change_job();
