-- The planner gets no statistics of the small tables that claims and ticks read: these tables change faster than anybody
-- analyzes them, and statistics of another state made claims read all idle lanes. See docs/decisions/0047-no-statistics.md.
do $$
declare
    c_tables constant regclass[] := array[
        'treadle.lanes', 'treadle.floors', 'treadle.ticks', 'treadle.pauses', 'treadle.limits', 'treadle.limit_targets',
        'treadle.limit_keys', 'treadle.limit_openings', 'treadle.limit_holders', 'treadle.dependency_checks',
        'treadle.wake_requests', 'treadle.expiries', 'treadle.horizon'
    ];
    v_column record;
begin
    for v_column in
        select
            owner.oid::regclass as relation,
            attribute.attname as name,
            format_type(attribute.atttypid, attribute.atttypmod)
                || coalesce(' collate ' || nullif(attribute.attcollation, 0)::regcollation, '') as type,
            exists (
                select
                from pg_stats as known
                where known.schemaname = owner.relnamespace::regnamespace::text
                  and known.tablename = owner.relname
                  and known.attname = attribute.attname
            ) as analyzed
        from pg_class as owner
        join pg_attribute as attribute on attribute.attrelid = owner.oid
        where owner.oid = any (c_tables)
          and attribute.attnum > 0
          and not attribute.attisdropped
    loop
        execute format('alter table %s alter column %I set statistics 0', v_column.relation, v_column.name);
        if v_column.analyzed then
            -- Forgets the statistics that exist: nothing else does so in every version of PostgreSQL.
            begin
                execute format('alter table %s alter column %I type %s', v_column.relation, v_column.name, v_column.type);
            exception when feature_not_supported then
                null; -- a trigger names this column
            end;
        end if;
    end loop;

    -- Expressions in indexes. (A change of type builds the index anew.)
    for v_column in
        select index.indexrelid::regclass as relation, attribute.attnum as number
        from pg_index as index
        join pg_attribute as attribute on attribute.attrelid = index.indexrelid
        where index.indrelid = any (c_tables)
          and index.indkey[attribute.attnum - 1] = 0
    loop
        execute format('alter index %s alter column %s set statistics 0', v_column.relation, v_column.number);
    end loop;
end
$$;
