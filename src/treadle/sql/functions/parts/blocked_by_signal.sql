-- A bit of jobs.holds: see blocked_by_key.sql.
create or replace function treadle.blocked_by_signal() returns int
language sql immutable parallel safe
return 4;

comment on function treadle.blocked_by_signal() is 'The bit of jobs.holds that says: a signal has to be sent first.';
