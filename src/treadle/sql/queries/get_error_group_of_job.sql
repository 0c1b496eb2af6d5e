-- The group of the last failure of a job that was counted.
select group_id
from treadle.grouped_errors
where job_id = %(id)s
order by failed_at desc
limit 1
