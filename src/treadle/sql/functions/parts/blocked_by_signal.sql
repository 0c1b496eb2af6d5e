-- The bit of jobs.holds that says: a signal has to be sent first.
create or replace function treadle.blocked_by_signal() returns int
language sql immutable parallel safe
return 4;
