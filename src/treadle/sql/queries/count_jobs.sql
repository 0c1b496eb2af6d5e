select status, count(*)
from treadle.jobs
group by status
