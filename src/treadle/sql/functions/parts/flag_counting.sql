-- The bit of jobs.flags that says: when this job ends, job_ended() counts it for its workflow.
create or replace function treadle.flag_counting() returns smallint
language sql immutable parallel safe
return 4096::smallint;
