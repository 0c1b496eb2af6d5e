-- The transactions that may currently have locked a row: those that the snapshot lists as running, and the next ids,
-- because a snapshot does not list the newest transactions. Not the current transaction: it may have locked jobs that
-- did not fit into a limit. (In SQL, it would be planned again in every transaction.)
create or replace function treadle.recent_lockers() returns xid[]
language plpgsql stable
as $$
begin
    return array(
        select running::xid
        from pg_snapshot_xip(pg_current_snapshot()) as running
        union all
        select following.id::xid
        from (
            select (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + nth)::text::xid8 as id
            from generate_series(0, 9) as nth
        ) as following
        where following.id is distinct from pg_current_xact_id_if_assigned()
    );
end
$$;
