-- Whether a session watches events and progress of jobs: see request_notifications(). The planner inlines this
-- function. It reads the sequence without a query: every report of a worker asks.
create or replace function treadle.is_watched() returns boolean
language sql volatile
return coalesce(
    pg_sequence_last_value('treadle.watched'::regclass) >= extract(epoch from clock_timestamp()) * 1000000, false
);
