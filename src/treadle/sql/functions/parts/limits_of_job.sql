-- The limits of a job that was not claimed under them, and may have been enqueued before they were declared: where its
-- partition lacks the value of "per", its payload is asked. The planner inlines this function.
create or replace function treadle.limits_of_job(p_queue varchar, p_job_type varchar, p_partition varchar, p_data jsonb)
returns table (name varchar, key varchar, kind varchar)
language sql stable
as $$
    select
        rule.name,
        case when rule.per = '' then '' else coalesce(nullif(rule.key, ''), left(p_data ->> rule.per::text, 200), '') end,
        rule.kind
    from treadle.limits_of(p_queue, p_job_type, p_partition) as rule
$$;
