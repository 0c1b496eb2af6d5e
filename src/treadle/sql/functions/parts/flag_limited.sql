-- The bit of jobs.flags that says: this job was claimed under a limit.
create or replace function treadle.flag_limited() returns smallint
language sql immutable parallel safe
return 512::smallint;
