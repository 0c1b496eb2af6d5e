-- The newest first, of all jobs, of one, or of one act.
select id, at, actor, action, job_id, job_type, queue, reason, details::text, act
from treadle.audit
where (%(job_id)s::uuid is null or job_id = %(job_id)s::uuid)
  and (%(act)s::uuid is null or act = %(act)s::uuid)
  and (%(before)s::bigint is null or id < %(before)s::bigint)
order by id desc
limit %(limit)s
