create or replace function treadle.flag_member() returns smallint
language sql immutable parallel safe
return 64::smallint;

comment on function treadle.flag_member() is 'The bit of jobs.flags that says: this job is part of a workflow.';
