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
    else
        -- After all others: there may be many that cannot be decided.
        update treadle.dependency_checks as noted
        set jobs = v_left,
            past = v_past,
            look_at = clock_timestamp(),
            error = null
        where noted.id = p_check;
    end if;
end
$$;

comment on function treadle.decide_check(bigint, uuid[], boolean, uuid, int)
    is 'Decides about the jobs of a row of dependency_checks, and deletes it, or leaves what is left.';
