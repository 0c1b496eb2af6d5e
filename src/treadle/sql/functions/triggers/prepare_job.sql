-- Trigger: sets run_at of a job inserted without one, blocks a job behind an earlier one with its key, and sets
-- finished_at. The partition must be valid: a tick or a claim that read another one would fail. (That of a lane is
-- checked, too, but a session can pretend that the lane is listed.)
--
-- Runs with the rights of its owner: a role that may only enqueue cannot read other jobs.
create or replace function treadle.prepare_job() returns trigger
language plpgsql
security definer
as $$
declare
    v_newest uuid;
begin
    if new.partition <> '' and jsonb_typeof(new.partition::jsonb) <> 'object' then
        raise exception 'the partition of a job must be empty or a JSON object, got %', new.partition
            using errcode = 'check_violation';
    end if;
    -- Nothing else is to be done for most jobs with a partition.
    if new.key is null
        and (new.run_at, new.attempts, new.max_attempts) is not null
        and new.status = 'pending'
        and new.finished_at is null
    then
        return new;
    end if;

    -- First the transaction id, then the clock: the tick relies on that order (see public/tick.sql).
    perform pg_current_xact_id();

    -- Null from a client that has no value of its own means the default.
    new.attempts := coalesce(new.attempts, 0);
    new.max_attempts := coalesce(new.max_attempts, 3);

    if new.run_at is null then
        -- For an INSERT by hand, "oldest first" means created_at. Its default is the start of the transaction, the same
        -- for every row; the clock differs between them.
        if new.created_at is distinct from now() and treadle.is_read_committed() then
            new.run_at := coalesce(new.created_at, clock_timestamp());
        else
            new.run_at := clock_timestamp();
        end if;
    end if;

    -- In SERIALIZABLE reading the other jobs of the key would make enqueuers abort each other: then the job keeps its id and is
    -- not blocked, and claims skip it until its turn.
    if new.key is not null
        and new.status = 'pending'
        and current_setting('transaction_isolation') <> 'serializable'
    then
        -- One look-up in idx_jobs_key per rank: see key_rank().
        select newest.id
        into v_newest
        from generate_series(0, 2) as rank
        cross join lateral (
            select job.id
            from treadle.jobs as job
            where job.key = new.key
              and job.status in ('pending', 'claimed', 'running')
              and treadle.key_rank(job.status, job.holds) = rank
            order by job.id desc
            limit 1
        ) as newest
        order by newest.id desc
        limit 1;
    end if;

    -- The order within the key is that of the ids, also if the clock was set back.
    if v_newest > new.id then
        new.id := treadle.id_after(new.id, v_newest);
    end if;

    -- Blocked only if there is a job that will unblock it; confirm_blocked() checks that again at commit.
    if v_newest is not null then
        new.holds := new.holds | treadle.blocked_by_key();
    end if;

    if new.status in ('completed', 'failed', 'cancelled') then
        new.finished_at := coalesce(new.finished_at, clock_timestamp());
    else
        new.finished_at := null;
    end if;

    return new;
end
$$;

create or replace trigger prepare_job
    before insert on treadle.jobs
    for each row
    when (
        new.run_at is null
        or new.key is not null
        or new.status <> 'pending'
        or new.finished_at is not null
        or new.attempts is null
        or new.max_attempts is null
        or new.partition <> ''
    )
    execute function treadle.prepare_job();
