-- The limits of a lane, or of a job, that decide when it starts, each with the value of its "per". The planner
-- inlines this function.
create or replace function treadle.limits_of(p_queue varchar, p_job_type varchar, p_partition varchar)
returns table (name varchar, key varchar, kind varchar, per varchar, amount int)
language sql stable
as $$
    -- Two of its targets may match.
    select distinct rule.name, treadle.limit_key(rule.per, p_partition), rule.kind, rule.per, rule.amount
    from treadle.limit_targets as target
    join treadle.limits as rule on rule.name = target.name
    where target.job_type in (p_job_type, '')
      and target.queue in (p_queue, '')
      and rule.kind <> 'pending'
$$;
