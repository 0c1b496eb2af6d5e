update treadle.stored
set size = %(size)s,
    digest = %(digest)s,
    written_at = clock_timestamp()
where id = %(id)s
  and size is null
  and removing_at is null
returning id
