create or replace function treadle.keeps_signal() returns smallint
language sql immutable parallel safe
return 1024::smallint;

comment on function treadle.keeps_signal() is 'The bit of jobs.keeps that says: this job waits for a signal, and no worker runs it.';
