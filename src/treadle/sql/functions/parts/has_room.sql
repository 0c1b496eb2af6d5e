-- Whether a limit has room for one more job. Without a lock: the room may be gone when a claim looks. If there is no
-- such limit any more, there is room.
create or replace function treadle.has_room(p_name varchar, p_key varchar, p_now timestamptz) returns boolean
language plpgsql stable
set enable_seqscan = off
as $$
begin
    return coalesce((select state.room > 0 from treadle.limit_room(p_name, p_key, 1, p_now) as state), true);
end
$$;
