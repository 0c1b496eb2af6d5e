-- Records that the object is still being written.
update treadle.stored
set written_at = pg_catalog.clock_timestamp()
where id operator(pg_catalog.=) %(id)s
  and size is null
  and removing_at is null
returning id
