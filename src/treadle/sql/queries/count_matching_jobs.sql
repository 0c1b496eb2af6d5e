-- The position of the last row is where the scan stopped, if that row says so.
select
    count(*) filter (where found.fits),
    max(found.looked),
    bool_or(found.last),
    (array_agg(found.id order by found.nth desc))[1],
    (array_agg(found.rank order by found.nth desc))[1],
    (
        array_agg(
            case
                when isfinite(found.at) then (extract(epoch from found.at) * 1000000)::numeric(20)::text
                else found.at::text
            end
            order by found.nth desc
        )
    )[1]
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
    1000000000,
    %(look)s,
    %(patience)s::interval
) with ordinality as found (id, rank, at, fits, last, looked, nth)
