select status, pg_catalog.count(*)
from treadle.jobs
group by status
