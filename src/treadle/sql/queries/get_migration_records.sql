select
    (select coalesce(max(migration.version), 0) from treadle.migrations as migration),
    -- As the name of its file says (see db/migrations.py).
    (
        select coalesce(max(migration.version), 0)
        from treadle.migrations as migration
        where migration.name not like '%%.compatible.sql'
    ),
    (select coalesce(jsonb_object_agg(function.name, function.digest), '{}') from treadle.functions as function)
