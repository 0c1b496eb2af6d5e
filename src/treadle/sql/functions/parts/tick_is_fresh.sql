-- Whether a tick has searched for late commits below the floors within the last 0.8 s. If not, a search makes a tick,
-- or starts at a floor that is safe: see prepare_lanes(). (A tick from the future was made before the clock was set
-- back.) Call this before reading the floors, in a statement of its own: a tick between the two may lower a floor.
create or replace function treadle.tick_is_fresh() returns boolean
language plpgsql
as $$
begin
    return abs(
        coalesce(pg_sequence_last_value('treadle.tick_clock'::regclass), 0) - extract(epoch from clock_timestamp()) * 1000000
    ) < 800000;
end
$$;
