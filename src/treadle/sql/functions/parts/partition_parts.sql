-- By which arguments the limits and the fairness of a job type and queue tell jobs apart; null if they have none. An
-- empty table is read without touching a page.
create or replace function treadle.partition_parts(p_job_type varchar, p_queue varchar) returns varchar[]
language plpgsql stable
as $$
begin
    if not exists (select from treadle.limit_targets) then
        return null;
    end if;
    return (
        select array_remove(array_agg(distinct known.part), '')
        from (
            select rule.per as part
            from treadle.limit_targets as target
            join treadle.limits as rule on rule.name = target.name
            where target.job_type in (p_job_type, '')
              and target.queue in (p_queue, '')
            union all
            select setting.fair_by
            from treadle.type_settings as setting
            where setting.job_type = p_job_type
              and setting.fair_by is not null
        ) as known
    );
end
$$;
