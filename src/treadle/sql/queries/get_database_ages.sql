select base.datname::text, age(base.datfrozenxid), mxid_age(base.datminmxid)
from pg_database as base
order by age(base.datfrozenxid) desc
limit 20
