-- Locks the rows of these limits, as far as no other claim has locked them, and says which: their numbers in the
-- lists. If all are locked, and p_wait says so, it waits for a moment: claims are short.
create or replace function treadle.lock_limit_keys(p_names varchar[], p_keys varchar[], p_wait boolean) returns int[]
language plpgsql
as $$
declare
    v_locked int[];
    v_timeout text;
begin
    for v_try in 1 .. 2 loop
        v_locked := array(
            select used.nth
            from unnest(p_names, p_keys) with ordinality as used (name, key, nth)
            cross join lateral (
                select
                from treadle.limit_keys as known
                where known.name = used.name
                  and known.key = used.key
                for no key update skip locked
            ) as locked
        );
        exit when v_try = 2 or cardinality(v_locked) = cardinality(p_names);

        -- A claim that has just added the same one may stay open: do not wait long for it.
        if exists (
            select
            from unnest(p_names, p_keys) as used (name, key)
            where not exists (
                select
                from treadle.limit_keys as known
                where known.name = used.name
                  and known.key = used.key
            )
        ) then
            v_timeout := current_setting('lock_timeout');
            perform set_config('lock_timeout', case when v_locked = '{}' and p_wait then '50ms' else '2ms' end, true);
            begin
                insert into treadle.limit_keys (name, key)
                select used.name, used.key
                from unnest(p_names, p_keys) as used (name, key)
                order by used.name, used.key
                on conflict do nothing;
            exception when lock_not_available or deadlock_detected then
                -- Then those that nobody else has added.
                perform set_config('lock_timeout', '1ms', true);
                for v_nth in 1 .. cardinality(p_names) loop
                    begin
                        insert into treadle.limit_keys (name, key)
                        values (p_names[v_nth], p_keys[v_nth])
                        on conflict do nothing;
                    exception when lock_not_available or deadlock_detected then
                        null;
                    end;
                end loop;
            end;
            perform set_config('lock_timeout', v_timeout, true);
        end if;
    end loop;

    if v_locked = '{}' and p_wait then
        v_timeout := current_setting('lock_timeout');
        perform set_config('lock_timeout', '20ms', true);
        begin
            v_locked := array(
                select used.nth
                from unnest(p_names, p_keys) with ordinality as used (name, key, nth)
                cross join lateral (
                    select
                    from treadle.limit_keys as known
                    where known.name = used.name
                      and known.key = used.key
                    for no key update
                ) as locked
            );
        exception when lock_not_available or deadlock_detected then
            null;
        end;
        perform set_config('lock_timeout', v_timeout, true);
    end if;
    return v_locked;
end
$$;
