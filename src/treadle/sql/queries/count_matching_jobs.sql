-- After found_jobs.sql: how many jobs match, and the place at which the search stopped (bool_or says whether it did).
select
    count(*) filter (where found.fits),
    max(found.examined),
    bool_or(found.last),
    (array_agg(found.id order by found.nth desc))[1],
    (array_agg(found.rank order by found.nth desc))[1],
    (array_agg(found.at order by found.nth desc))[1]
from found
