select id, is_new, is_changed
from treadle.enqueue_with_options(
    %(job_type)s, pg_catalog.string_to_array(%(data)s, E'\n'), %(options)s::pg_catalog.jsonb
)
