-- How many attempts failed and how many completed: in the last 15 minutes, and in the hour before.
select
    coalesce(sum(minutes.errors) filter (where recent.is_recent), 0)::bigint,
    coalesce(sum(minutes.completed) filter (where recent.is_recent), 0)::bigint,
    coalesce(sum(minutes.errors) filter (where not recent.is_recent), 0)::bigint,
    coalesce(sum(minutes.completed) filter (where not recent.is_recent), 0)::bigint
from treadle.minutes as minutes
cross join lateral (select minutes.minute >= statement_timestamp() - interval '15 minutes' as is_recent) as recent
where minutes.minute >= statement_timestamp() - interval '75 minutes'
