-- After jobs were deleted, by whatever statement: what only they needed is needed no more, and will be swept.
--
-- Ids are ordered by time, and so are batches of pruned jobs: one look into the range of their ids says whether any of
-- them used something. Jobs without references so cost one search of an index a statement, not one a job.
create or replace function treadle.drop_uses() returns trigger
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    perform
    from treadle.stored_uses as use
    where use.job_id >= (select job.id from old_jobs as job order by job.id limit 1)
      and use.job_id <= (select job.id from old_jobs as job order by job.id desc limit 1)
    limit 1;

    if found then
        delete from treadle.stored_uses as use
        using old_jobs as job
        where use.job_id = job.id;
    end if;
    return null;
end
$$;

comment on function treadle.drop_uses() is 'Trigger: deleted jobs do not use what is stored any more.';

create or replace trigger drop_uses
    after delete on treadle.jobs
    referencing old table as old_jobs
    for each statement
    execute function treadle.drop_uses();
