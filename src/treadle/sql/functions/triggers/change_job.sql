-- Trigger: sets finished_at of a job, and places a job that becomes claimable at or above the floor of its lane.
--
-- Before a job is changed, by whatever statement:
--
-- - A claim by hand gets a new lease number, as those of claim_jobs() do: otherwise an earlier claim under the same worker's
--   name would still be accepted. If the job was blocked behind its key, it no longer is: it unblocks the next when it ends.
--   Its expiry and a unique key for pending jobs end, as with every claim. It uses its limits from then on, also if that is more
--   than they allow.
-- - A finished job that is revived is unblocked: the job that would have unblocked it may be gone.
-- - A step that waits for a signal begins to wait again when it comes back, with its whole time. First for the jobs before it:
--   job_ended() looks at those for every job that comes back.
-- - A job that becomes claimable (a retry, a release, a recovery, an unblocked key, a move to another lane) keeps its age,
--   but is never placed below the floor, where no claim would find it. It gets the partition that its limits need.
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
    v_parts varchar[];
begin
    if old.status = 'pending' and new.status in ('claimed', 'running') and new.lease = old.lease then
        new.lease := greatest(old.lease, treadle.lease_era()) + 1;
        new.holds := new.holds & ~treadle.blocked_by_key();
        new.unique_key := case when old.unique_while is null then new.unique_key end;
        new.expires_at := null;
        -- First the lock of the tick clock: whoever adds a limit sees that. See parts/list_running_jobs.sql.
        perform treadle.tick_is_fresh();
        if exists (select from treadle.limit_targets) then
            insert into treadle.unlisted_jobs (name, key, job, lease, weight)
            select rule.name, rule.key, new.id, new.lease, coalesce(new.weight, 1)
            from treadle.limits_of_job(new.queue, new.job_type, new.partition, new.data) as rule;
            new.flags := case when found then new.flags | treadle.flag_limited() | treadle.flag_opening() else new.flags end;
        end if;
    end if;

    -- The statement that ended it may have counted that: see job_ended().
    if old.finished_at is not null and new.flags & treadle.flag_member() <> 0 then
        new.flags := new.flags | treadle.flag_counting();
    end if;

    if new.status in ('completed', 'failed', 'cancelled') then
        new.finished_at := coalesce(new.finished_at, clock_timestamp());
        return new;
    end if;

    new.finished_at := null;
    if old.status in ('completed', 'failed', 'cancelled') then
        new.holds := new.holds & ~treadle.blocked_by_key();
        new.flags := new.flags & ~treadle.flag_skipped();
    end if;
    if old.status <> 'pending' and new.status = 'pending' and new.flags & treadle.flag_signal() <> 0 then
        new.holds := new.holds & ~treadle.blocked_by_signal() | treadle.blocked_by_jobs();
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

    -- It was blocked or claimed before there was a limit by its arguments: see move_to_partitions().
    if new.partition = '' then
        v_parts := treadle.partition_parts(new.job_type, new.queue);
        new.partition := case when v_parts is null then '' else treadle.partition_of(v_parts, new.data) end;
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

-- The condition leaves out what every job goes through: a claim, reports of its worker, and its completion. PostgreSQL parses it
-- again for every UPDATE, so it is one short condition for all of the above: see job_ended.sql. That an unfinished job has no
-- finished_at is checked by valid_status.
create or replace trigger change_job
    before update of status, holds, attempts, max_attempts, run_at, queue, job_type, priority, partition, finished_at
    on treadle.jobs
    for each row
    when (
        old.finished_at is not null
        or new.finished_at is null
        and (new.status <> all ('{claimed,running}'::text[]) or old.status = 'pending' and new.lease = old.lease)
    )
    execute function treadle.change_job();
