-- A tick looked for late commits below the floors just now. If none did, whoever looks for jobs begins at settled, so
-- that late commits are found within a second by whoever claims five times in it. (A tick from the future was made before
-- the clock was set back.)
--
-- To be asked before the lanes are read, in a statement of its own: a tick that is made in between may have moved a floor
-- down, and who asked after it would trust the floor of before.
create or replace function treadle.tick_is_fresh() returns boolean
language plpgsql
as $$
begin
    return (
        select abs(clock.last_value - extract(epoch from clock_timestamp()) * 1000000) < 800000
        from treadle.tick_clock as clock
    );
end
$$;

comment on function treadle.tick_is_fresh() is 'Part of claiming: whether the floors of the lanes can be trusted.';
