-- The bit of jobs.flags that says: this job waits for a signal, and no worker runs it.
create or replace function treadle.flag_signal() returns smallint
language sql immutable parallel safe
return 256::smallint;
