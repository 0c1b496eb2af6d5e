-- A new time-ordered job id (uuid version 7). PostgreSQL 18 and newer make version 7 uuids themselves: 2
-- microseconds against 7 for new_id.sql.
create or replace function treadle.new_id() returns uuid
language sql volatile parallel safe
return uuidv7();

alter table treadle.jobs alter column id set default treadle.new_id();
