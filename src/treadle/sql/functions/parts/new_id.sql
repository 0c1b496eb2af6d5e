-- A new time-ordered job id, a uuid of version 7: 48 bits of milliseconds, 12 bits of the fraction, then random
-- bits. new_id.pg18.sql replaces this where the server has its own.
create or replace function treadle.new_id() returns uuid
language sql volatile parallel safe
begin atomic
    select (lpad(to_hex(micros / 1000), 12, '0')
            || '7' || lpad(to_hex((micros % 1000) * 4096 / 1000), 3, '0')
            || substr(replace(gen_random_uuid()::text, '-', ''), 17))::uuid
    from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as micros) as moment;
end;

alter table treadle.jobs alter column id set default treadle.new_id();
