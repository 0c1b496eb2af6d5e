-- For a row of dependency_checks. It stays, with what is left.
create or replace function treadle.decide_check(p_check bigint, p_ids uuid[], p_ended boolean, p_past uuid, p_limit int) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    v_left uuid[];
    v_past uuid := p_past;
begin
    if p_ended then
        v_past := treadle.check_ended(p_ids[1], p_past, p_limit);
        v_left := case when v_past is null then '{}' else p_ids end;
    else
        v_left := treadle.check_waiting(p_ids, p_past);
    end if;

    if v_left = '{}' then
        delete from treadle.dependency_checks as noted
        where noted.id = p_check;
    elsif v_left <> p_ids or v_past is distinct from p_past then
        update treadle.dependency_checks as noted
        set jobs = v_left,
            past = v_past
        where noted.id = p_check;
    end if;
end
$$;

comment on function treadle.decide_check(bigint, uuid[], boolean, uuid, int)
    is 'Decides about the jobs of a row of dependency_checks, and deletes it, or leaves what is left.';
