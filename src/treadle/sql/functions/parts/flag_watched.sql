-- The bit of jobs.flags that says: jobs wait for the end of this one.
create or replace function treadle.flag_watched() returns smallint
language sql immutable parallel safe
return 8192::smallint;
