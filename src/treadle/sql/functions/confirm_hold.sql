-- At commit of a job that was held behind its key: is there still somebody who will let it go?
--
-- Whoever of a key is live and not held frees one that is, when it ends (free_next). The one that this job counts on may
-- have ended since, in a transaction that could not see this one. So take a share lock on any that is live and not
-- held: its end then waits for this commit, and sees it. A lock that cannot be had at once may be that end; then do
-- not wait, but go unheld: the claim passes over a job whose turn it is not.
--
-- Run as its owner: who may only enqueue cannot lock or change jobs.
create or replace function treadle.confirm_hold() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
    perform
    from treadle.jobs as other
    where other.key = new.key
      and other.status in ('pending', 'claimed', 'running')
      and case other.status when 'pending' then 1 + (other.holds & 1) else 0 end < 2
    limit 1
    for share skip locked;

    if not found then
        update treadle.jobs as job
        set holds = job.holds & ~1
        where job.id = new.id
          and job.status = 'pending';
    end if;

    return null;
end
$$;

comment on function treadle.confirm_hold() is 'Trigger: at commit, lets a job go that nobody will let go any more.';

drop trigger if exists confirm_hold on treadle.jobs;

create constraint trigger confirm_hold
    after insert on treadle.jobs
    deferrable initially deferred
    for each row
    when (new.holds & 1 = 1)
    execute function treadle.confirm_hold();
