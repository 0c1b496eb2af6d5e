-- The bit of jobs.flags that says: this job waits for others, or did.
create or replace function treadle.flag_dependencies() returns smallint
language sql immutable parallel safe
return 8::smallint;
