select pg_catalog.set_config(
    'application_name',
    pg_catalog.format(
        'treadle cannot write: %%s %%s %%s',
        %(refusal)s::text,
        extract(epoch from pg_catalog.clock_timestamp())::bigint,
        %(name)s::text
    ),
    false
)
