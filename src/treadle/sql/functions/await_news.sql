create or replace function treadle.await_news(p_for interval default '30 seconds') returns void
language plpgsql
as $$
begin
    perform setval('treadle.watched', (extract(epoch from clock_timestamp() + p_for) * 1000000)::bigint);
end
$$;

comment on function treadle.await_news(interval)
    is 'Somebody listens to channel(''news'') for this long: the ids of jobs with new events or progress are sent there.';
