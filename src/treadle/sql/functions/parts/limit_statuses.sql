-- The state of limits, and of fairness and aging, for display: of p_names, each for the element of p_keys (see
-- limit_state()), those that jobs wait for first. The jobs that wait are counted up to an equal share of c_budget,
-- counted_to: a row whose number equals it has at least that many.
create or replace function treadle.limit_statuses(p_names varchar[], p_keys varchar[])
returns table (
    name varchar, kind varchar, per varchar, key varchar, job_types varchar[], queues varchar[],
    when_full varchar, amount int, seconds double precision, burst int,
    in_code boolean, declared_amount int, declared_seconds double precision, declared_burst int,
    changed_by text, changed_at timestamptz,
    in_use bigint, available int, opens_at timestamptz, frees_at timestamptz,
    lanes bigint, waiting bigint, counted_to int, at timestamptz
)
language plpgsql stable
set treadle.plan = index_ranges
as $$
#variable_conflict use_column
declare
    c_budget constant int := 50000;
    -- Of limits for jobs that wait, only so many are counted, and only up to c_pending: see count_pending().
    c_pending_limits constant int := 5;
    c_pending constant int := 10000;
    v_now constant timestamptz := clock_timestamp();
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_counted_to constant int := greatest(100, least(1000, c_budget / greatest(1, cardinality(p_names))));
begin
    return query
    select
        rule.name,
        rule.kind,
        nullif(rule.per, '')::varchar,
        case when rule.per <> '' then chosen.key end,
        targets.job_types,
        targets.queues,
        rule.when_full,
        case rule.kind when 'fairness' then own.weight when 'aging' then rule.amount else state.amount end,
        extract(epoch from rule.period)::double precision,
        rule.burst,
        rule.declared is not null,
        (rule.declared ->> 'amount')::int,
        (rule.declared ->> 'seconds')::double precision,
        (rule.declared ->> 'burst')::int,
        coalesce(own.changed_by, state.changed_by, case when rule.kind = 'aging' then rule.changed_by end),
        coalesce(own.changed_at, state.changed_at, case when rule.kind = 'aging' then rule.changed_at end),
        case
            when rule.kind <> 'pending' then state.in_use
            when chosen.key is not null and chosen.nth <= c_pending_limits
                then treadle.count_pending(rule.name, rule.per, chosen.key, c_pending)
        end,
        state.available,
        state.opens_at,
        state.frees_at,
        held.lanes,
        held.waiting,
        v_counted_to,
        v_now
    from (
        select
            chosen.name, chosen.key,
            row_number() over (partition by known.kind = 'pending', chosen.key is null order by chosen.name, chosen.key) as nth
        from unnest(p_names, p_keys) as chosen (name, key)
        left join treadle.limits as known on known.name = chosen.name
    ) as chosen
    join treadle.limits_and_settings() as rule on rule.name = chosen.name
    cross join lateral treadle.limit_state(chosen.name, chosen.key, 1, v_now) as state
    left join treadle.fair_weights as own on own.job_type = rule.setting_of and own.key = chosen.key and rule.kind = 'fairness'
    cross join lateral (
        select
            array_agg(distinct target.job_type order by target.job_type) filter (where target.job_type <> '') as job_types,
            array_agg(distinct target.queue order by target.queue) filter (where target.queue <> '') as queues
        from (
            select target.job_type, target.queue
            from treadle.limit_targets as target
            where target.name = chosen.name
            union all
            select setting.job_type, ''
            from treadle.type_settings as setting
            where rule.kind = 'fairness'
              and setting.weights_of = rule.setting_of
        ) as target
    ) as targets
    cross join lateral (
        with known as materialized (
            select distinct row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane as lane
            from (
                select lane.queue, lane.job_type, lane.priority, lane.partition
                from treadle.lanes as lane
                where lane.limit_name = chosen.name
                  and lane.limit_key = chosen.key
                limit v_counted_to
            ) as lane
        )
        select
            (select count(*) from known) as lanes,
            (
                select count(*)
                from (
                    select
                    from known
                    left join lateral treadle.safe_floor(known.lane, v_safe) as bound on true
                    cross join lateral (
                        select
                        from treadle.lane_jobs(known.lane, coalesce(bound.floor, '-infinity')) as job
                        where job.run_at <= v_now
                        limit v_counted_to
                    ) as due
                    limit v_counted_to
                ) as counted
            ) as waiting
    ) as held
    order by held.waiting desc, rule.name, chosen.key nulls first;
end
$$;
