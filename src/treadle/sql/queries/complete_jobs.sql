select treadle.complete_jobs(
    string_to_array(%(ids)s, ',')::uuid[],
    string_to_array(%(leases)s, ',')::bigint[],
    string_to_array(%(worker_ids)s, E'\n'),
    string_to_array(%(results)s, E'\n', ''),
    string_to_array(%(seconds)s, ',')::double precision[]
)
