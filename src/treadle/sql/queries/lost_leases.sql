select id, completed
from treadle.find_lost_claims(%(ids)s::uuid[], %(leases)s::bigint[])
