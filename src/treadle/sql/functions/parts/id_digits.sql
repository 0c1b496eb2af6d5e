-- The digits of a search text that may be the first or the last ones of an id; null if it cannot be that. Fewer than
-- 8 would also match ids of other jobs by chance.
create or replace function treadle.id_digits(p_search text) returns text
language sql immutable parallel safe
begin atomic
    select digits
    from (select lower(replace(p_search, '-', '')) as digits) as given
    where digits ~ '^[0-9a-f]{8,32}$';
end;
