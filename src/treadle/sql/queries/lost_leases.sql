select id, completed
from treadle.lost_leases(%(ids)s::uuid[], %(leases)s::bigint[])
