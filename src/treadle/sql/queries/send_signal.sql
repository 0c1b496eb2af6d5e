select treadle.send_signal(%(id)s, %(name)s, %(value)s::pg_catalog.jsonb, %(actor)s)
