-- Locks stored objects, so that they are not swept until this transaction ends. Returns those that do not exist.
with wanted as materialized (
    select pg_catalog.unnest(pg_catalog.string_to_array(%(stored)s, ',')::uuid[]) as id
),
locked as materialized (
    select stored.id
    from treadle.stored as stored
    where stored.id operator(pg_catalog.=) any (select wanted.id from wanted)
      and stored.size is not null
      and stored.removing_at is null
    order by stored.id
    for key share
)
select distinct wanted.id
from wanted
where wanted.id operator(pg_catalog.<>) all (select locked.id from locked)
