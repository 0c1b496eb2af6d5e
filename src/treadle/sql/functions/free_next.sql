-- After a job with a key ended (or was deleted), by whatever statement: let the oldest that is held behind the key go.
--
-- A live job that is not held is a token: while there are held ones, there is at least one. It passes from each that
-- ends to the oldest that is held, so two that end at the same time free two. More than one token does no harm: whose
-- turn it is, the claim decides.
create or replace function treadle.free_next() returns trigger
language plpgsql
set enable_seqscan = off
as $$
declare
    v_next uuid;
begin
    if not treadle.reads_fresh() then
        raise exception 'job % has a key, and this transaction is %', old.id, current_setting('transaction_isolation')
            using errcode = 'feature_not_supported',
                  hint = 'Finish jobs that have a key in a READ COMMITTED transaction: an older snapshot cannot see who waits behind them.';
    end if;

    loop
        select job.id
        into v_next
        from treadle.jobs as job
        where job.key = old.key
          and job.status in ('pending', 'claimed', 'running')
          and case job.status when 'pending' then 1 + (job.holds & 1) else 0 end = 2
        order by job.id
        limit 1;
        exit when not found;

        -- Waits where the row is being freed, cancelled, or locked by a commit in confirm_hold; then looks again.
        update treadle.jobs as job
        set holds = job.holds & ~1
        where job.id = v_next
          and job.status = 'pending'
          and job.holds & 1 = 1;
        exit when found;
    end loop;

    return null;
end
$$;

comment on function treadle.free_next() is 'Trigger: when a job with a key ends, lets the next of its key go.';

create or replace trigger free_next
    after update on treadle.jobs
    for each row
    when (
        old.key is not null
        and old.holds & 1 = 0
        and old.status in ('pending', 'claimed', 'running')
        and new.status in ('completed', 'failed', 'cancelled')
    )
    execute function treadle.free_next();

create or replace trigger free_next_deleted
    after delete on treadle.jobs
    for each row
    when (old.key is not null and old.holds & 1 = 0 and old.status in ('pending', 'claimed', 'running'))
    execute function treadle.free_next();
