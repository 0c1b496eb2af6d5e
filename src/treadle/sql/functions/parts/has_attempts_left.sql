-- Whether a job may be attempted again.
create or replace function treadle.has_attempts_left(p_attempts int, p_max_attempts int) returns boolean
language sql immutable parallel safe
return p_attempts < p_max_attempts;
