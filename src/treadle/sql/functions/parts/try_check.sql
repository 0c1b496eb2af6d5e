-- decide_check(), but an error affects only these jobs: it must not stop the claims and ticks of all others, nor undo the end of the
-- job that somebody waits for.
create or replace function treadle.try_check(p_check bigint, p_ids uuid[], p_ended boolean, p_past uuid, p_limit int) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    c_later constant interval := '30 seconds';
begin
    perform treadle.decide_check(p_check, p_ids, p_ended, p_past, p_limit);
exception when others then
    update treadle.dependency_checks as noted
    set look_at = clock_timestamp() + c_later,
        error = sqlerrm
    where noted.id = p_check;
end
$$;

comment on function treadle.try_check(bigint, uuid[], boolean, uuid, int)
    is 'Decides about the jobs of a row of dependency_checks; after an error, it is tried again later.';
