-- The bit of jobs.flags that says: this job has steps.
create or replace function treadle.flag_steps() returns smallint
language sql immutable parallel safe
return 4::smallint;
