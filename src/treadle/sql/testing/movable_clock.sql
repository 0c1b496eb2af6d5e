-- For test databases only: gives the schema a clock that tests can move, by replacing the clock in every function and
-- default. So all rules of the queue, which live here, follow the moved clock. See docs/decisions/0037-testing.md.
--
-- The distance to the real time is kept in a sequence: it takes effect in all sessions at once, also inside
-- transactions that are open, and no lock is needed to read it. It can be run again, and has to be after each
-- migration.
create sequence if not exists treadle.test_offset minvalue -9223372036854775807 start 0;

create or replace function treadle.test_clock() returns timestamptz
language sql volatile
return clock_timestamp() + coalesce(pg_sequence_last_value('treadle.test_offset'::regclass), 0) * interval '1 microsecond';

comment on function treadle.test_clock() is 'Instead of clock_timestamp(), in a test database: can be moved by treadle.testing.';

create or replace function treadle.test_now() returns timestamptz
language sql stable
return now() + coalesce(pg_sequence_last_value('treadle.test_offset'::regclass), 0) * interval '1 microsecond';

comment on function treadle.test_now() is 'Instead of now(), in a test database: can be moved by treadle.testing.';

do $$
declare
    c_schema constant oid := 'treadle.test_offset'::regclass::oid;
    v_schema constant oid := (select relation.relnamespace from pg_class as relation where relation.oid = c_schema);
    v_found record;
    v_text text;
begin
    for v_found in
        select function.oid, pg_get_functiondef(function.oid) as text
        from pg_proc as function
        where function.pronamespace = v_schema
          and function.prokind = 'f'
          and function.proname not in ('test_clock', 'test_now')
    loop
        v_text := regexp_replace(v_found.text, '(pg_catalog\.)?\mclock_timestamp\(\)', 'treadle.test_clock()', 'g');
        v_text := regexp_replace(v_text, '(pg_catalog\.)?\mnow\(\)', 'treadle.test_now()', 'g');
        if v_text <> v_found.text then
            execute v_text;
        end if;
    end loop;

    for v_found in
        select
            value.adrelid::regclass as on_table,
            attribute.attname as name,
            pg_get_expr(value.adbin, value.adrelid) as text
        from pg_attrdef as value
        join pg_class as relation on relation.oid = value.adrelid
        join pg_attribute as attribute on attribute.attrelid = value.adrelid and attribute.attnum = value.adnum
        where relation.relnamespace = v_schema
    loop
        v_text := regexp_replace(v_found.text, '(pg_catalog\.)?\mclock_timestamp\(\)', 'treadle.test_clock()', 'g');
        v_text := regexp_replace(v_text, '(pg_catalog\.)?\mnow\(\)', 'treadle.test_now()', 'g');
        if v_text <> v_found.text then
            execute format('alter table %s alter column %I set default %s', v_found.on_table, v_found.name, v_text);
        end if;
    end loop;
end
$$;
