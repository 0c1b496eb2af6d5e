-- After jobs were deleted, by whatever statement: their errors go with them. A job without an error costs nothing.
create or replace function treadle.drop_errors() returns trigger
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
    return null;
end
$$;

comment on function treadle.drop_errors() is 'Trigger: removes the errors of deleted jobs.';

create or replace trigger drop_errors
    after delete on treadle.jobs
    referencing old table as old_jobs
    for each statement
    execute function treadle.drop_errors();
