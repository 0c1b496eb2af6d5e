-- Renamed in version 0.2 to find_lost_claims(). Processes of version 0.1 call it by this name during a rolling upgrade.
-- May be dropped in version 0.3.
create or replace function treadle.lost_leases(p_ids uuid[], p_leases bigint[]) returns table (id uuid, completed boolean)
language sql
as $$
    select * from treadle.find_lost_claims(p_ids, p_leases)
$$;

comment on function treadle.lost_leases(uuid[], bigint[]) is 'Deprecated: use find_lost_claims(). Dropped in version 0.3.';
