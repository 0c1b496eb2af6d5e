-- The bit of jobs.holds that says: an earlier job with the same key has not finished.
--
-- The bits of jobs.holds, each by name. A bit says what a pending job waits for besides its time.
--
-- An int, not a smallint: `holds & treadle.blocked_by_key()` must become exactly the expression of idx_jobs_key.
create or replace function treadle.blocked_by_key() returns int
language sql immutable parallel safe
return 1;
