-- The bit of jobs.flags that says: this job has log lines.
create or replace function treadle.flag_logs() returns smallint
language sql immutable parallel safe
return 2::smallint;
