update treadle.stored
set size = %(size)s,
    digest = %(digest)s,
    written_at = pg_catalog.clock_timestamp()
where id operator(pg_catalog.=) %(id)s
  and size is null
  and removing_at is null
returning id
