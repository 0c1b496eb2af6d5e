select /* columns */
from treadle.jobs
where true /* and the filters that were asked for */
order by id desc
limit %(limit)s
