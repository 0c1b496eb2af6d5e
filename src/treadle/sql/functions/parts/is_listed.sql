-- Whether claims find the jobs that arrive in a lane without another row of it: it is active, or waits for a limit.
-- The planner inlines this function.
create or replace function treadle.is_listed(p_dormant_xid xid8, p_limit_name varchar) returns boolean
language sql immutable parallel safe
return p_dormant_xid is null or p_limit_name is not null;
