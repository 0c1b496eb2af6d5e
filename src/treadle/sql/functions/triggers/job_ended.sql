-- After a job has finished or was deleted, by whatever statement: unblocks the oldest blocked job of its key, and notes that
-- its limits may have room, that jobs may have waited for it, and that its workflow has one less. The last two also if a finished
-- job was retried.
--
-- While a key has blocked jobs, it has at least one unfinished job that is not blocked. Each of those unblocks one other
-- when it finishes, so two that finish at the same time unblock two. More than one unblocked job does no harm: claims take
-- only the head of the key.
create or replace function treadle.job_ended() returns trigger
language plpgsql
set enable_seqscan = off
as $$
declare
    v_next uuid;
begin
    if old.flags & treadle.flag_limited() <> 0
        and old.status in ('claimed', 'running')
        and exists (select from treadle.lanes as lane where lane.parked_name is not null)
    then
        perform treadle.note_openings(old.queue, old.job_type, old.partition);
    end if;

    if old.flags & treadle.flag_member() <> 0 then
        if tg_op = 'UPDATE'
            and (old.flags # new.flags) & treadle.flag_counted() = 0
            and old.status <> new.status
            and (old.finished_at is not null or new.finished_at is not null)
        then
            perform treadle.note_member_change(
                old.id, treadle.outcome_of(old.status, old.flags), treadle.outcome_of(new.status, new.flags)
            );
        elsif tg_op = 'DELETE' and old.finished_at is null then
            perform treadle.note_member_change(old.id, old.status, null);
        end if;
    end if;

    if tg_op = 'DELETE' then
        if old.flags & treadle.flag_watched() <> 0 then
            perform treadle.note_dependency_check(array[old.id], true);
        end if;
    elsif (old.finished_at is null) <> (new.finished_at is null) then
        if old.flags & treadle.flag_watched() <> 0
            or new.status <> 'completed'
            and exists (select from treadle.dependencies as edge where edge.after_id = old.id)
        then
            perform treadle.note_dependency_check(array[old.id], true);
        end if;
        if new.finished_at is null and new.holds & treadle.blocked_by_jobs() <> 0 then
            perform treadle.note_dependency_check(array[old.id], false);
        end if;
    end if;

    if old.key is null
        or tg_op = 'UPDATE' and new.finished_at is null
        or old.status in ('completed', 'failed', 'cancelled')
        or treadle.is_blocked_by_key(old.holds)
    then
        return null;
    end if;

    if not treadle.is_read_committed() then
        raise exception 'job % has a key, and this transaction is %', old.id, current_setting('transaction_isolation')
            using errcode = 'feature_not_supported',
                  hint = 'Finish jobs that have a key in a READ COMMITTED transaction: an older snapshot cannot see which jobs wait behind them.';
    end if;

    loop
        select job.id
        into v_next
        from treadle.jobs as job
        where job.key = old.key
          and job.status in ('pending', 'claimed', 'running')
          and treadle.key_rank(job.status, job.holds) = 2
        order by job.id
        limit 1;
        exit when not found;

        -- Waits if the row is being unblocked, cancelled, or locked by a commit in confirm_blocked(); then searches again.
        update treadle.jobs as job
        set holds = job.holds & ~treadle.blocked_by_key()
        where job.id = v_next
          and job.status = 'pending'
          and treadle.is_blocked_by_key(job.holds);
        exit when found;
    end loop;

    return null;
end
$$;

comment on function treadle.job_ended() is 'Trigger: when a job finishes, unblocks the next one of its key, and notes that its limits may have room and that jobs may have waited for it.';

-- The condition leaves out what most jobs go through, so that it is short: PostgreSQL parses it again for every UPDATE of jobs.
-- The function decides.
create or replace trigger job_ended
    after update on treadle.jobs
    for each row
    when (
        (new.finished_at is not null or new.status = 'pending')
        and (
            old.key is not null
            or old.flags & 24 <> 0 -- flag_limited() and flag_watched()
            or old.flags & 256 <> 0 and old.flags = new.flags -- flag_member(), and the statement does not count it
            or old.finished_at is not null
            or new.status <> 'completed'
        )
    )
    execute function treadle.job_ended();

create or replace trigger job_deleted
    after delete on treadle.jobs
    for each row
    when (old.key is not null or old.flags & 280 <> 0) -- flag_limited(), flag_watched() and flag_member()
    execute function treadle.job_ended();
