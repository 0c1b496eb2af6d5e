-- After handlers were told to wait: closes the limits of each job until its element of p_until. Those per its
-- element of p_parts, if that is not null; otherwise the rates, or all if there is none. Two calls lock limits in
-- the same order, whatever the jobs.
create or replace function treadle.close_limits(p_ids uuid[], p_until timestamptz[], p_parts varchar[]) returns void
language plpgsql
as $$
declare
    v_limit record;
begin
    for v_limit in
        select rule.name, rule.key, max(rule.until) as until
        from (
            select
                rule.name, rule.key, rule.kind, told.until, told.part,
                bool_or(rule.kind = 'rate') over (partition by told.id) as any_rate
            from unnest(p_ids, p_until, p_parts) as told (id, until, part)
            join treadle.jobs as job on job.id = told.id
            cross join lateral treadle.limits_of(job.queue, job.job_type, job.partition) as rule
            where (told.part is null or rule.per = told.part)
              and rule.amount is not null
        ) as rule
        where rule.kind = 'rate' or not rule.any_rate or rule.part is not null
        group by rule.name, rule.key
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
            select room.*
            from treadle.limit_room(v_limit.name, v_limit.key, 0, clock_timestamp()) as room
        ),
        replaced as (
            delete from treadle.limit_holders as holders
            using state
            where holders.name = v_limit.name
              and holders.key = v_limit.key
              and holders.version = state.version
        )
        insert into treadle.limit_holders (name, key, version, jobs, leases, weights, weight, found, full_at, closed_until)
        select
            v_limit.name, v_limit.key, coalesce(state.version, 0) + 1, coalesce(state.jobs, '{}'), coalesce(state.leases, '{}'),
            coalesce(state.weights, '{}'), coalesce(state.weight, 0), coalesce(state.found, 0), coalesce(state.full_at, '-infinity'),
            greatest(state.closed_until, v_limit.until)
        from state;

        insert into treadle.limit_openings (opens_at, name, key)
        values (v_limit.until, v_limit.name, v_limit.key);
    end loop;
end
$$;
