-- The newest first, of all jobs or of one.
select id, at, actor, action, job_id, job_type, queue, reason, details::text
from treadle.audit
where (%(job_id)s::uuid is null or job_id = %(job_id)s::uuid)
  and (%(before)s::bigint is null or id < %(before)s::bigint)
order by id desc
limit %(limit)s
