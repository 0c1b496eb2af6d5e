-- Whether a job has a status as find_jobs() knows them: with blocked and later, and pending only if nothing blocks it.
-- Null: any. The planner inlines this function.
create or replace function treadle.has_status(
    p_wanted varchar, p_status varchar, p_holds smallint, p_run_at timestamptz
) returns boolean
language sql stable
return case p_wanted
    when 'blocked' then p_status = 'pending' and p_holds <> 0
    when 'pending' then p_status = 'pending' and p_holds = 0
    when 'later' then p_status = 'pending' and p_holds = 0 and p_run_at > now()
    else p_status = coalesce(p_wanted, p_status)
end;
