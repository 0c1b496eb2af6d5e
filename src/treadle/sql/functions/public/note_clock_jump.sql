-- Notes that the server's clock shows p_after where it should show p_before. Returns false if that was noted already;
-- if two do so at the same time, both rows do no harm: see clock_before().
--
-- A tick notices that the clock was set back. That it was set forward is noticed by workers, which compare it with
-- their own monotonic clock.
create or replace function treadle.note_clock_jump(p_before timestamptz, p_after timestamptz) returns boolean
language plpgsql
set enable_seqscan = off
as $$
declare
    c_kept constant int := 100;
    v_last treadle.clock_jumps;
    v_id bigint;
begin
    select jump.*
    into v_last
    from treadle.clock_jumps as jump
    order by jump.id desc
    limit 1;

    if abs(extract(epoch from (p_after - p_before) - (v_last.after - v_last.before))) < 5
        and abs(extract(epoch from p_after - v_last.after)) < 60
    then
        return false;
    end if;

    insert into treadle.clock_jumps (before, after)
    values (p_before, p_after)
    returning id into v_id;

    delete from treadle.clock_jumps as jump
    where jump.id = any (array(
            select old.id
            from treadle.clock_jumps as old
            where old.id <= v_id - c_kept
            for update skip locked
          ));
    return true;
end
$$;
