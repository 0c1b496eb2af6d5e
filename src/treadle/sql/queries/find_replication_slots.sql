select
    slot.slot_name::text,
    slot.slot_type,
    slot.active,
    age(slot.catalog_xmin),
    case
        when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), slot.restart_lsn)::bigint
    end,
    slot.wal_status
from pg_replication_slots as slot
order by 5 desc nulls last
limit 50
