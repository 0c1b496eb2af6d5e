-- Those that are not there (any more). The others cannot be swept until this transaction ends.
with wanted as materialized (
    select unnest(string_to_array(%(stored)s, ',')::uuid[]) as id
),
held as materialized (
    select stored.id
    from treadle.stored as stored
    where stored.id in (select wanted.id from wanted)
      and stored.size is not null
      and stored.removing_at is null
    order by stored.id
    for key share
)
select distinct wanted.id
from wanted
where wanted.id not in (select held.id from held)
