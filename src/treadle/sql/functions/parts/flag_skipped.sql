-- The bit of jobs.flags that says: this job was cancelled because it was not needed.
create or replace function treadle.flag_skipped() returns smallint
language sql immutable parallel safe
return 128::smallint;
