-- What operators see and change under a name: limits, and the fairness and aging of job types. Jobs of the given
-- types have a setting; of limits, limit_targets says that. The planner inlines this function.
create or replace function treadle.limits_and_settings()
returns table (
    name varchar, kind varchar, per varchar, when_full varchar, amount int, period interval, burst int, declared jsonb,
    changed_by text, changed_at timestamptz, setting_of varchar -- the job type of a setting
)
language sql stable
as $$
    select
        rule.name, rule.kind, rule.per, rule.when_full, rule.amount, rule.period, rule.burst, rule.declared,
        rule.changed_by, rule.changed_at, null
    from treadle.limits as rule
    union all
    select
        case when setting.job_type = '' then 'job types fair' else setting.job_type || ' fair' end, 'fairness', setting.fair_by,
        null, null, null, null, '{}', null, null, setting.job_type
    from treadle.type_settings as setting
    where setting.fair_by is not null
      and setting.weights_of = setting.job_type
    union all
    select
        'aging', 'aging', '', null, setting.aging_share, setting.aging_after, null, setting.declared,
        setting.changed_by, setting.changed_at, ''
    from treadle.type_settings as setting
    where setting.aging_after is not null
$$;
