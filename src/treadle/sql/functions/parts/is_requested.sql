-- Whether a session waits for jobs to finish (treadle.awaited), or watches their events and progress (treadle.watched):
-- see request_notifications(). The planner inlines this function. It reads the sequence without a query: every end of a
-- job and every report of a worker asks.
create or replace function treadle.is_requested(p_until regclass) returns boolean
language sql volatile
return coalesce(pg_sequence_last_value(p_until) >= extract(epoch from clock_timestamp()) * 1000000, false);
