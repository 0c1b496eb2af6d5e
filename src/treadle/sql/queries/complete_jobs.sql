-- Which were accepted, or null for all: nearly always all, and their ids would be read for nothing.
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
