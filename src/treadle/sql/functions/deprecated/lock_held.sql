-- Renamed in version 0.2 to lock_claimed(). Processes of version 0.1 call it by this name during a rolling upgrade.
-- May be dropped in version 0.3.
create or replace function treadle.lock_held(p_worker_id varchar, p_ids uuid[], p_leases bigint[]) returns uuid[]
language sql
as $$
    select treadle.lock_claimed(p_worker_id, p_ids, p_leases)
$$;

comment on function treadle.lock_held(varchar, uuid[], bigint[]) is 'Deprecated: use lock_claimed(). Dropped in version 0.3.';
