-- After jobs were deleted, by whatever statement: what else there is of them goes, too. A job that has nothing costs
-- nothing: its own row says so.
create or replace function treadle.drop_belongings() returns trigger
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    delete from treadle.errors as error
    using old_jobs as job
    where error.job_id = job.id
      and job.last_error is not null;

    delete from treadle.events as event
    using old_jobs as job
    where event.job_id = job.id
      and job.keeps & 1 <> 0;

    delete from treadle.logs as line
    using old_jobs as job
    where line.job_id = job.id
      and job.keeps & 2 <> 0;

    delete from treadle.steps as step
    using old_jobs as job
    where step.job_id = job.id
      and job.keeps & 4 <> 0;
    return null;
end
$$;

comment on function treadle.drop_belongings() is 'Trigger: removes the errors, events, log lines and steps of deleted jobs.';

create or replace trigger drop_belongings
    after delete on treadle.jobs
    referencing old table as old_jobs
    for each statement
    execute function treadle.drop_belongings();
