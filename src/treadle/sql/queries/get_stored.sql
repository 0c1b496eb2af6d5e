select place
from treadle.stored
where id operator(pg_catalog.=) %(id)s
  and size is not null
  and removing_at is null
