with kept as (
    update treadle.stored
    set written_at = pg_catalog.clock_timestamp()
    where id operator(pg_catalog.=) %(id)s
      and size is null
      and removing_at is null
    returning id
)
insert into treadle.stored_parts (stored_id, part, bytes)
select kept.id, %(part)s::int, %(bytes)s::bytea
from kept
returning stored_id
