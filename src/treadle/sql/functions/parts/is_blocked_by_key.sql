-- Whether a job waits for an earlier job with the same key.
create or replace function treadle.is_blocked_by_key(p_holds smallint) returns boolean
language sql immutable parallel safe
return p_holds & treadle.blocked_by_key() = treadle.blocked_by_key();
