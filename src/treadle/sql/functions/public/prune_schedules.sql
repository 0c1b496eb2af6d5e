-- Deletes schedules that were retired a month ago, and the record of times that are a month old. Returns the number
-- of times.
create or replace function treadle.prune_schedules(p_limit int default 2000) returns int
language plpgsql
set enable_seqscan = off
as $$
declare
    c_keep constant interval := '30 days';
    v_pruned int;
begin
    delete from treadle.schedules as known
    where known.retired_at < clock_timestamp() - c_keep;

    delete from treadle.occurrences as known
    where known.ctid = any (
        array(
            select old.ctid
            from treadle.occurrences as old
            where old.decided_at < clock_timestamp() - c_keep
            order by old.decided_at
            limit p_limit
            for update skip locked
        )
    );
    get diagnostics v_pruned = row_count;
    return v_pruned;
end
$$;
