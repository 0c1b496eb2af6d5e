-- The bit of jobs.flags that says: this job has events.
create or replace function treadle.flag_events() returns smallint
language sql immutable parallel safe
return 1::smallint;
