-- Whether a job that has ended like this is what another one waits for. p_outcome as outcome_of() returns it; null
-- for a job that was deleted.
create or replace function treadle.is_satisfied(p_needs varchar, p_outcome varchar) returns boolean
language sql immutable parallel safe
return case p_needs
    when 'completed' then coalesce(p_outcome = 'completed', false)
    when 'failed' then coalesce(p_outcome in ('failed', 'cancelled'), true)
    else true
end;
