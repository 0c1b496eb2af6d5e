-- Records that the object is still being written.
update treadle.stored
set written_at = clock_timestamp()
where id = %(id)s
  and size is null
  and removing_at is null
returning id
