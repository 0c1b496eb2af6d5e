-- After a handler was told to wait: closes the limits of its job until then. Those per p_part, if it is given; otherwise the
-- limits per period, or all if there is none.
create or replace function treadle.close_limits(p_id uuid, p_until timestamptz, p_part varchar) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    v_limit record;
begin
    for v_limit in
        select rule.name, rule.key
        from (
            select rule.*, bool_or(rule.period is not null) over () as any_period
            from treadle.jobs as job
            cross join lateral treadle.limits_of(job.queue, job.job_type, job.partition) as rule
            join treadle.limits as declared on declared.name = rule.name
            where job.id = p_id
              and (p_part is null or declared.per = p_part)
              and rule.amount is not null
        ) as rule
        where rule.period is not null or not rule.any_period or p_part is not null
        order by rule.name, rule.key
    loop
        insert into treadle.limit_keys (name, key)
        values (v_limit.name, v_limit.key)
        on conflict do nothing;

        -- A claim may be using it.
        perform
        from treadle.limit_keys as known
        where known.name = v_limit.name
          and known.key = v_limit.key
        for no key update;

        with state as materialized (
            select holders.*
            from treadle.limit_holders as holders
            where holders.name = v_limit.name
              and holders.key = v_limit.key
            order by holders.version desc
            limit 1
        ),
        replaced as (
            delete from treadle.limit_holders as holders
            using state
            where holders.name = state.name
              and holders.key = state.key
              and holders.version = state.version
        )
        insert into treadle.limit_holders (name, key, version, jobs, leases, weights, weight, found, full_at, closed_until)
        select
            v_limit.name, v_limit.key, coalesce(state.version, 0) + 1, coalesce(state.jobs, '{}'), coalesce(state.leases, '{}'),
            coalesce(state.weights, '{}'), coalesce(state.weight, 0), coalesce(state.found, 0), coalesce(state.full_at, '-infinity'),
            greatest(state.closed_until, p_until)
        from (select) as one
        left join state on true;

        insert into treadle.limit_openings (opens_at, name, key)
        values (p_until, v_limit.name, v_limit.key);
    end loop;
end
$$;

comment on function treadle.close_limits(uuid, timestamptz, varchar)
    is 'Closes the limits of a job until p_until.';
