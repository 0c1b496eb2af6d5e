-- The rows that find_jobs.sql and count_matching_jobs.sql select from: this text is put in front of theirs. Times are
-- texts, microseconds since 1970 or infinity: rows that were written by hand may have times that Python cannot
-- represent.
with found as (
    select
        found.id,
        found.rank,
        case
            when isfinite(found.at) then (extract(epoch from found.at) * 1000000)::numeric(20)::text
            else found.at::text
        end as at,
        found.fits,
        found.last,
        found.examined,
        found.nth
    from treadle.find_jobs(
        %(status)s,
        %(job_type)s,
        %(queue)s,
        %(worker_id)s,
        %(key)s,
        %(search)s,
        %(exact)s,
        %(rank)s,
        case
            when %(at)s::text like '%%infinity' then %(at)s::timestamptz
            else (timestamp 'epoch' + %(at)s::interval) at time zone 'UTC'
        end,
        %(id)s,
        %(limit)s,
        %(look)s,
        %(patience)s::interval,
        %(since)s::timestamptz,
        %(until)s::timestamptz,
        %(path)s::text[],
        %(value)s::jsonb,
        %(payloads)s,
        %(also)s::jsonb
    ) with ordinality as found (id, rank, at, fits, last, examined, nth)
)
