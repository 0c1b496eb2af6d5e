-- How many attempts failed and how many completed: in the last 15 minutes, and in the hour before.
select
    coalesce(sum(minutes.errors) filter (where minutes.minute >= statement_timestamp() - interval '15 minutes'), 0)::bigint,
    coalesce(sum(minutes.completed) filter (where minutes.minute >= statement_timestamp() - interval '15 minutes'), 0)::bigint,
    coalesce(sum(minutes.errors) filter (where minutes.minute < statement_timestamp() - interval '15 minutes'), 0)::bigint,
    coalesce(sum(minutes.completed) filter (where minutes.minute < statement_timestamp() - interval '15 minutes'), 0)::bigint
from treadle.minutes as minutes
where minutes.minute >= statement_timestamp() - interval '75 minutes'
