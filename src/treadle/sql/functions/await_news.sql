create or replace function treadle.await_news(p_for interval default '30 seconds') returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Not for ever: while somebody listens, each batch of jobs is followed by a NOTIFY, and whoever looks may ask.
    perform setval('treadle.watched', (extract(epoch from clock_timestamp() + least(p_for, '5 minutes')) * 1000000)::bigint);
end
$$;

comment on function treadle.await_news(interval)
    is 'Somebody listens to channel(''news'') for this long: the ids of jobs with new events or progress are sent there. At most five minutes; ask again.';

-- Run as its owner: who only looks cannot set the clock itself.
revoke all on function treadle.await_news(interval) from public;
