-- The bit of jobs.flags that says: results of other jobs are arguments of this one.
create or replace function treadle.flag_inputs() returns smallint
language sql immutable parallel safe
return 16::smallint;
