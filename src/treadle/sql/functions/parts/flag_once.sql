-- The bit of jobs.flags that says: the attempt that runs must not be repeated if its process dies.
create or replace function treadle.flag_once() returns smallint
language sql immutable parallel safe
return 1024::smallint;
