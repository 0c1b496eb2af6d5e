-- A range of the primary key.
select id
from treadle.jobs
where id between %(first)s and %(last)s
order by id
limit %(limit)s
