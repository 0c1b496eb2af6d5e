-- The rows of stored objects whose files were removed.
delete from treadle.stored
where id operator(pg_catalog.=) any (pg_catalog.string_to_array(%(stored)s, ',')::uuid[])
  and removing_at is not null
  and not exists (select from treadle.stored_uses as use where use.stored_id operator(pg_catalog.=) stored.id)
returning id
