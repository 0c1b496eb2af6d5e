-- The status of a job; skipped if it was cancelled because it was not needed.
create or replace function treadle.outcome_of(p_status varchar, p_flags smallint) returns varchar
language sql immutable parallel safe
return case when p_status = 'cancelled' and p_flags & treadle.flag_skipped() <> 0 then 'skipped' else p_status end;
