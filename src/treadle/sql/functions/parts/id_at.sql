-- The first id that new_id() could make at this time: ids begin with their time in milliseconds.
create or replace function treadle.id_at(p_moment timestamptz) returns uuid
language sql immutable parallel safe
begin atomic
    select case
        when p_moment > '1970-01-01 00:00:00+00' and p_moment < '9999-01-01 00:00:00+00'
            then (lpad(to_hex((extract(epoch from p_moment) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
        when p_moment > '1970-01-01 00:00:00+00' then 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
        when p_moment is not null then '00000000-0000-0000-0000-000000000000'::uuid
    end;
end;
