create or replace function treadle.await_ends(p_for interval default '30 seconds') returns void
language plpgsql
as $$
begin
    perform setval('treadle.awaited', (extract(epoch from clock_timestamp() + p_for) * 1000000)::bigint);
end
$$;

comment on function treadle.await_ends(interval)
    is 'Somebody listens to channel(''ends'') for this long: the ids of jobs that end are sent there.';
