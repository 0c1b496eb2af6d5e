-- Whether an attempt has begun that must not be repeated. While a job waits, the bit is left over from an earlier one.
create or replace function treadle.has_begun_once(p_status varchar, p_flags smallint) returns boolean
language sql immutable parallel safe
return p_status = 'running' and p_flags & treadle.flag_once() <> 0;
