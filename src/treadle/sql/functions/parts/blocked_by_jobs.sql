-- A bit of jobs.holds: see blocked_by_key.sql.
create or replace function treadle.blocked_by_jobs() returns int
language sql immutable parallel safe
return 2;

comment on function treadle.blocked_by_jobs() is 'The bit of jobs.holds that says: other jobs have to end first.';
