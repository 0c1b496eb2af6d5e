select nth, id
from treadle.enqueue_workflow(%(name)s, %(blocks)s::pg_catalog.jsonb, %(options)s::pg_catalog.jsonb)
