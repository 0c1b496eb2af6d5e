-- The planner inlines this function.
create or replace function treadle.limit_kind(p_fair boolean, p_when_full varchar, p_period interval) returns varchar
language sql immutable parallel safe
return case
    when p_when_full is not null then 'pending'
    when p_fair and p_period is not null then 'aging'
    when p_fair then 'fairness'
    when p_period is not null then 'rate'
    else 'concurrency'
end;

comment on function treadle.limit_kind(boolean, varchar, interval) is 'What a row of limits is about.';
