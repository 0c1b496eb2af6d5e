-- Renamed in version 0.2 to request_notifications(). Processes of version 0.1 call it by this name during a rolling upgrade.
-- May be dropped in version 0.3.
create or replace function treadle.await_news(p_for interval default '30 seconds') returns void
language sql
security definer
as $$
    select treadle.request_notifications('news', p_for)
$$;

comment on function treadle.await_news(interval) is 'Deprecated: use request_notifications(). Dropped in version 0.3.';

revoke all on function treadle.await_news(interval) from public;
