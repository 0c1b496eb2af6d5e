-- The value of a part of a partition; empty if it has none.
create or replace function treadle.limit_key(p_per varchar, p_partition varchar) returns varchar
language sql immutable parallel safe
return case when p_per = '' or p_partition = '' then '' else coalesce(left(p_partition::jsonb ->> p_per::text, 200), '') end;
