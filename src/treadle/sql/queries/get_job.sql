select /* columns */
from treadle.jobs
where id operator(pg_catalog.=) %(id)s
