-- For a row of dependency_checks. It stays, with the jobs that are left.
create or replace function treadle.decide_check(p_check bigint, p_ids uuid[], p_ended boolean, p_past uuid, p_limit int) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    v_left uuid[] := '{}';
begin
    if not p_ended then
        v_left := treadle.check_waiting(p_ids, p_past);
    else
        v_left := array(
            select each.id
            from unnest(p_ids) as each (id)
            where not treadle.check_ended(each.id, p_limit)
        );
    end if;

    if v_left = '{}' then
        delete from treadle.dependency_checks as noted
        where noted.id = p_check;
    elsif v_left <> p_ids then
        update treadle.dependency_checks as noted
        set jobs = v_left
        where noted.id = p_check;
    end if;
end
$$;

comment on function treadle.decide_check(bigint, uuid[], boolean, uuid, int)
    is 'Decides about the jobs of a row of dependency_checks, and deletes it, or leaves those that are left.';
