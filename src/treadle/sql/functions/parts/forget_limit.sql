-- Deletes what belongs to a limit that was deleted.
create or replace function treadle.forget_limit(p_name varchar) returns void
language plpgsql
as $$
begin
    delete from treadle.limit_targets as known
    where known.name = p_name;
    delete from treadle.limit_keys as known
    where known.name = p_name;
    delete from treadle.limit_holders as known
    where known.name = p_name;
    delete from treadle.unlisted_limits as known
    where known.name = p_name;
    delete from treadle.unlisted_jobs as known
    where known.name = p_name;
    perform treadle.reopen_limit(p_name);
end
$$;
