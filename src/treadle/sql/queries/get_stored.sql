select place
from treadle.stored
where id = %(id)s
  and size is not null
  and removing_at is null
