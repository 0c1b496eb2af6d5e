-- Whether an id begins or ends with these digits.
create or replace function treadle.has_digits(p_id uuid, p_digits text) returns boolean
language sql immutable parallel safe
begin atomic
    select p_digits in (
        left(replace(p_id::text, '-', ''), length(p_digits)),
        right(replace(p_id::text, '-', ''), length(p_digits))
    );
end;
