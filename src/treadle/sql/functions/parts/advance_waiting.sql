-- Decides about jobs that wait for others, as far as that could not be decided at commit. A part of claims and
-- ticks; several may do this at the same time.
create or replace function treadle.advance_waiting(p_limit int) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    c_checks constant int := 10;
    v_check record;
begin
    if not treadle.is_read_committed() then
        return;
    end if;

    for v_check in
        select noted.id, noted.jobs, noted.ended, noted.past
        from treadle.dependency_checks as noted
        where noted.look_at <= clock_timestamp()
        order by noted.look_at
        limit c_checks
        for update skip locked
    loop
        perform treadle.decide_check(v_check.id, v_check.jobs, v_check.ended, v_check.past, p_limit);
    end loop;
end
$$;
