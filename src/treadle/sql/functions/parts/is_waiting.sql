-- Whether a job waits for other jobs.
create or replace function treadle.is_waiting(p_status varchar, p_holds smallint) returns boolean
language sql immutable parallel safe
return p_status = 'pending' and p_holds & treadle.blocked_by_jobs() <> 0;
