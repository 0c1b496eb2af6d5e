-- The ids that were accepted, or null if all were. That is the usual case, in which reading the ids would be wasted.
with accepted as materialized (
    select treadle.complete_jobs(
        string_to_array(%(ids)s, ',')::uuid[],
        string_to_array(%(leases)s, ',')::bigint[],
        string_to_array(%(worker_ids)s, E'\n'),
        string_to_array(%(results)s, E'\n', ''),
        string_to_array(%(seconds)s, ',')::double precision[]
    ) as id
)
select case
    when (select count(*) from accepted) < %(number)s then array(select accepted.id from accepted)
end
