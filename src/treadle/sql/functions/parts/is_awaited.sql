-- Whether a session waits for jobs to finish: see request_notifications(). The planner inlines this function. It
-- reads the sequence without a query: every end of a job asks.
create or replace function treadle.is_awaited() returns boolean
language sql volatile
return coalesce(
    pg_sequence_last_value('treadle.awaited'::regclass) >= extract(epoch from clock_timestamp()) * 1000000, false
);
