-- Decides about jobs that wait for others, or that others wait for: see dependency_checks. p_check is the row there,
-- which is deleted, or keeps what is left; null at commit, when usually none is needed.
--
-- An error affects only these jobs, which are tried again later: it must not stop the claims and ticks of all others,
-- nor undo the end of the job that somebody waits for.
create or replace function treadle.decide_check(p_check bigint, p_ids uuid[], p_ended boolean, p_past uuid, p_limit int)
returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    c_later constant interval := '30 seconds';
    v_left uuid[] := p_ids;
    v_past uuid := p_past;
    v_look_at timestamptz := clock_timestamp();
    v_error text;
begin
    begin
        if p_ended then
            v_past := treadle.check_ended(p_ids[1], p_past, p_limit);
            v_left := case when v_past is null then '{}' else p_ids end;
        else
            v_left := treadle.check_waiting(p_ids, p_past);
        end if;
    exception when others then
        v_look_at := clock_timestamp() + c_later;
        v_error := sqlerrm;
    end;

    if p_check is null then
        insert into treadle.dependency_checks (noted_at, look_at, jobs, ended, past, error)
        select clock_timestamp(), v_look_at, v_left, p_ended, v_past, v_error
        where v_left <> '{}';
    elsif v_left = '{}' then
        delete from treadle.dependency_checks as noted
        where noted.id = p_check;
    else
        -- After all others: there may be many that cannot be decided.
        update treadle.dependency_checks as noted
        set jobs = v_left,
            past = v_past,
            look_at = v_look_at,
            error = v_error
        where noted.id = p_check;
    end if;
end
$$;
