select /* columns */
from treadle.jobs
where true /* and the filters */
order by id desc
limit %(limit)s
