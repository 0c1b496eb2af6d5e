-- The bit of jobs.flags that says: this job is a workflow, and ends when all of its jobs have ended.
create or replace function treadle.flag_workflow() returns smallint
language sql immutable parallel safe
return 32::smallint;
