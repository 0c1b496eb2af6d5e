-- Trigger: when a job has ended, was given back, retried or deleted, does what follows for its limits, its workflow,
-- jobs that wait for it and its key.
--
-- The steps, whatever the statement:
--
-- 1. Its limits may have room.
-- 2. Its workflow has one less to wait for, or one more.
-- 3. Jobs may have waited for it.
-- 4. The next job of its key can run.
--
-- The flags of the job say what there is to do. A statement that ends many jobs does the first two itself, once for all
-- of them, and clears their flags: complete_jobs() both, settle_jobs() the first.
create or replace function treadle.job_ended() returns trigger
language plpgsql
set enable_seqscan = off
as $$
declare
    v_flags constant smallint := coalesce(new.flags, old.flags);
    v_ends constant boolean := old.finished_at is null and (tg_op = 'DELETE' or new.finished_at is not null);
    v_revived constant boolean := tg_op = 'UPDATE' and old.finished_at is not null and new.finished_at is null;
begin
    if v_flags & treadle.flag_opening() <> 0 and old.status in ('claimed', 'running') then
        perform treadle.note_openings(array[row(old.queue, old.job_type, old.priority, old.partition)::treadle.lane]);
    end if;

    if v_flags & treadle.flag_counting() <> 0
        and (v_ends or tg_op = 'UPDATE' and old.finished_at is not null and old.status <> new.status)
    then
        perform treadle.note_member_changes(
            array[old.id], treadle.outcome_of(old.status, old.flags), treadle.outcome_of(new.status, new.flags)
        );
    end if;

    if v_flags & treadle.flag_watched() <> 0 and (v_ends or v_revived or tg_op = 'DELETE')
        -- Those that do not watch it, because it is not the last that they wait for.
        or (v_ends or v_revived)
        and new.status <> 'completed'
        and exists (select from treadle.dependencies as edge where edge.after_id = old.id)
    then
        perform treadle.note_dependency_check(array[old.id], true);
    end if;
    -- Those may have ended while it did not wait.
    if old.status <> 'pending' and new.status = 'pending' and new.holds & treadle.blocked_by_jobs() <> 0 then
        perform treadle.note_dependency_check(array[old.id], false);
    end if;

    if v_ends and old.key is not null and not treadle.is_blocked_by_key(old.holds) then
        perform treadle.unblock_next(old.id, old.key);
    end if;
    return null;
end
$$;

-- PostgreSQL parses the condition again for every UPDATE, so it is short, and leaves out claims, reports and ordinary
-- completions. Lists are constants ('{…}') because those are parsed in one piece. 2048 is flag_opening().
create or replace trigger job_ended
    after update of status on treadle.jobs
    for each row
    when (
        new.status <> all ('{claimed,running,completed}'::text[])
        or new.finished_at is not null and (new.flags >= 2048 or old.key is not null)
        or old.finished_at is not null
    )
    execute function treadle.job_ended();

create or replace trigger job_deleted
    after delete on treadle.jobs
    for each row
    when (old.flags >= 2048 or old.key is not null)
    execute function treadle.job_ended();
