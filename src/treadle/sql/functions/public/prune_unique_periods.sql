-- Forgets the periods of unique keys that are over. Returns how many.
create or replace function treadle.prune_unique_periods(p_limit int default 10000) returns int
language plpgsql
as $$
declare
    v_pruned int;
begin
    delete from treadle.unique_periods as period
    where period.ctid = any (array(
        select old.ctid
        from treadle.unique_periods as old
        where old.ends_at < clock_timestamp()
        limit p_limit
        for update skip locked
    ));
    get diagnostics v_pruned = row_count;
    return v_pruned;
end
$$;
