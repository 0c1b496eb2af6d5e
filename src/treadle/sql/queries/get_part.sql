select part.bytes
from treadle.stored as stored
left join treadle.stored_parts as part on part.stored_id = stored.id and part.part = %(part)s
where stored.id = %(id)s
  and stored.removing_at is null
