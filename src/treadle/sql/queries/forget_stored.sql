-- The rows of stored objects whose files were removed.
delete from treadle.stored
where id = any (string_to_array(%(stored)s, ',')::uuid[])
  and removing_at is not null
  and not exists (select from treadle.stored_uses as use where use.stored_id = stored.id)
returning id
