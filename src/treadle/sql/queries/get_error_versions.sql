select version, failures, first_seen, last_seen
from treadle.error_group_versions
where group_id = %(id)s
order by last_seen desc, version desc
