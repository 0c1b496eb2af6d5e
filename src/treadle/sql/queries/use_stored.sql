select treadle.use_stored(
    pg_catalog.string_to_array(%(jobs)s, ',')::uuid[],
    pg_catalog.string_to_array(%(stored)s, ',')::uuid[]
)
