create or replace function treadle.partition_parts(p_job_type varchar, p_queue varchar) returns varchar[]
language plpgsql stable
as $$
begin
    -- An empty table is read without touching a page.
    if not exists (select from treadle.limit_targets) then
        return null;
    end if;
    return (
        select array_remove(array_agg(distinct rule.per), '')
        from treadle.limit_targets as target
        join treadle.limits as rule on rule.name = target.name
        where target.job_type in (p_job_type, '')
          and target.queue in (p_queue, '')
    );
end
$$;

comment on function treadle.partition_parts(varchar, varchar)
    is 'By which arguments the limits of a job type and queue tell jobs apart; null if they have none.';
