-- The bit of jobs.flags that says: when this job ends, job_ended() notes that its limits may have room.
--
-- This bit and the higher ones are what job_ended() has to do. A statement that does it itself, for many jobs at once,
-- clears the bit.
create or replace function treadle.flag_opening() returns smallint
language sql immutable parallel safe
return 2048::smallint;
