-- Why a job failed whose attempt must not be repeated.
create or replace function treadle.describe_once(p_reason text) returns text
language sql immutable parallel safe
return 'delivery is at_most_once, and how its attempt ended is not known: ' || p_reason;
