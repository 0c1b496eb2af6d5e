-- The time that the clock showed p_age before p_now, jumps of the clock taken into account. If it was set forward by a
-- day an hour ago, then what was written two hours ago is 26 hours old by the clock: without this, leases would have
-- run out, and jobs would be pruned too early.
--
-- Never later than p_now - p_age. If the clock was set back, it shows some times twice; then what was written before
-- the jump counts as younger than it is.
create or replace function treadle.clock_before(p_age interval, p_now timestamptz) returns timestamptz
language plpgsql stable
set enable_seqscan = off
as $$
declare
    v_left interval := p_age;
    v_at timestamptz := p_now;
    v_jump record;
begin
    for v_jump in
        select jump.before, jump.after
        from treadle.clock_jumps as jump
        order by jump.id desc
    loop
        -- Noted twice, or there was another jump in between.
        continue when v_jump.after > v_at;
        exit when v_at - v_jump.after >= v_left;
        v_left := v_left - (v_at - v_jump.after);
        v_at := v_jump.before;
    end loop;

    return least(v_at - v_left, p_now - p_age);
end
$$;
