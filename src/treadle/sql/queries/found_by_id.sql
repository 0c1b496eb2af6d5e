-- Instead of found_jobs.sql, in front of find_jobs.sql: the rows of these jobs.
with found as (
    select
        given.id,
        null::int as rank,
        null::text as at,
        true as fits,
        false as last,
        0 as examined,
        given.nth
    from unnest(%(ids)s::uuid[]) with ordinality as given (id, nth)
)
