-- Renamed in version 0.2 to is_head_of_key(). A call of version 0.1 that began before the upgrade may still use it.
-- May be dropped in version 0.3.
create or replace function treadle.is_head(p_key varchar, p_id uuid) returns boolean
language sql stable
as $$
    select treadle.is_head_of_key(p_key, p_id)
$$;

comment on function treadle.is_head(varchar, uuid) is 'Deprecated: use is_head_of_key(). Dropped in version 0.3.';
