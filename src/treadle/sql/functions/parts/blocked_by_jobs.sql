-- The bit of jobs.holds that says: other jobs have to end first.
create or replace function treadle.blocked_by_jobs() returns int
language sql immutable parallel safe
return 2;
