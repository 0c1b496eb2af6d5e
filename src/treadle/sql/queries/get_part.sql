select part.bytes
from treadle.stored as stored
left join treadle.stored_parts as part on part.stored_id operator(pg_catalog.=) stored.id and part.part operator(pg_catalog.=) %(part)s
where stored.id operator(pg_catalog.=) %(id)s
  and stored.removing_at is null
