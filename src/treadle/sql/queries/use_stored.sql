select treadle.use_stored(
    string_to_array(%(jobs)s, ',')::uuid[],
    string_to_array(%(stored)s, ',')::uuid[]
)
