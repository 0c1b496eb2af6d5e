-- With null for a job that was deleted.
create or replace function treadle.is_satisfied(p_needs varchar, p_status varchar) returns boolean
language sql immutable parallel safe
return p_needs in ('ended', 'member') or coalesce(p_status = 'completed', false);

comment on function treadle.is_satisfied(varchar, varchar)
    is 'Whether a job that has ended like this is what another one waits for.';
