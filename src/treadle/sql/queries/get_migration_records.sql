select
    (select coalesce(max(migration.version), 0) from treadle.migrations as migration),
    (select coalesce(jsonb_object_agg(function.name, function.digest), '{}') from treadle.functions as function)
