-- Renamed in version 0.2 to find_finished(). Processes of version 0.1 call it by this name during a rolling upgrade.
-- May be dropped in version 0.3.
create or replace function treadle.find_ended(p_ids uuid[]) returns setof uuid
language sql
as $$
    select treadle.find_finished(p_ids)
$$;

comment on function treadle.find_ended(uuid[]) is 'Deprecated: use find_finished(). Dropped in version 0.3.';
