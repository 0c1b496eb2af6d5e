-- At commit of a transaction that has made a tick: claims trust the floors for a while. Not before, because what was found would be
-- taken back with the transaction, and nobody would look for it until the next tick.
--
-- Runs with the rights of its owner: at commit, the current role may be any.
create or replace function treadle.note_tick() returns trigger
language plpgsql
security definer
as $$
begin
    perform setval('treadle.tick_clock', (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    return null;
end
$$;

comment on function treadle.note_tick() is 'Trigger: at commit, notes that a tick was made.';

drop trigger if exists note_tick on treadle.ticks;

create constraint trigger note_tick
    after insert on treadle.ticks
    deferrable initially deferred
    for each row
    execute function treadle.note_tick();
