-- Trigger: at commit, unblocks an inserted job that no other job would unblock any more.
--
-- Every unfinished job of the key that is not blocked unblocks another one when it finishes (job_ended). The one that
-- this job relies on may have finished since, in a transaction that could not see this one. So this trigger takes a
-- share lock on any job of the key that is unfinished and not blocked: the transaction that finishes that job then
-- waits for this commit, and sees this job. If no such row can be locked at once, this job is unblocked without
-- waiting, and claims skip it until its turn.
--
-- Runs with the rights of its owner: a role that may only enqueue cannot lock or change jobs.
create or replace function treadle.confirm_blocked() returns trigger
language plpgsql
security definer
as $$
declare
    v_locked boolean := false;
begin
    if treadle.is_read_committed() then
        v_locked := treadle.lock_unblocked(new.key);
    else
        begin
            v_locked := treadle.lock_unblocked(new.key);
        exception when serialization_failure then
            null; -- it has changed since the snapshot of this transaction, and may just be finishing
        end;
    end if;

    if not v_locked then
        update treadle.jobs as job
        set holds = job.holds & ~treadle.blocked_by_key()
        where job.id = new.id
          and job.status = 'pending';
    end if;

    return null;
end
$$;

create constraint trigger confirm_blocked
    after insert on treadle.jobs
    deferrable initially deferred
    for each row
    when (new.holds & 1 = 1) -- is_blocked_by_key(), written out: see change_job.sql
    execute function treadle.confirm_blocked();
