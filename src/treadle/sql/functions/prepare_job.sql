-- Before a job is inserted by hand, or with a key: give it its place in the lane, and hold it behind its key.
-- Run as its owner: who may only enqueue cannot look at other jobs.
create or replace function treadle.prepare_job() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
    -- The transaction's number first, the clock after it: the tick relies on that order (see tick.sql).
    perform pg_current_xact_id();

    if new.run_at is null then
        -- "Oldest first" by hand means created_at. Its default is the start of the transaction, the same for
        -- every row; the clock tells those apart.
        if new.created_at is distinct from now() and treadle.reads_fresh() then
            new.run_at := coalesce(new.created_at, clock_timestamp());
        else
            new.run_at := clock_timestamp();
        end if;
    end if;

    -- Held only if somebody is there who will let it go; confirm_hold looks again at commit. On an old
    -- snapshot nobody can tell, so it is not held, and the claim passes over it until its turn.
    if new.key is not null and new.status = 'pending' and treadle.reads_fresh() and exists (
        select
        from treadle.jobs as other
        where other.key = new.key
          and other.status in ('pending', 'claimed', 'running')
    ) then
        new.holds := new.holds | 1;
    end if;

    return new;
end
$$;

comment on function treadle.prepare_job() is 'Trigger: completes a job inserted by hand and holds it behind an earlier job with its key.';

create or replace trigger prepare_job
    before insert on treadle.jobs
    for each row
    when (new.run_at is null or new.key is not null)
    execute function treadle.prepare_job();
