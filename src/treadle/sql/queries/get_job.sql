select /* columns */
from treadle.jobs
where id = %(id)s
