-- The bit of jobs.flags that says: this job is part of a workflow.
create or replace function treadle.flag_member() returns smallint
language sql immutable parallel safe
return 64::smallint;
