-- What is in force for a key of a limit, which jobs use it, and how much room it has: the rule for all who ask. It
-- locks nothing: see lock_limits().
--
-- A rate is full again at full_at; each start moves that by a step. Otherwise those of the listed jobs count that are
-- still claimed or running. Those that have ended are looked for only if there is not enough room for p_wanted without
-- that and less than half is free; if p_wanted is null, always. The planner inlines this function, and leaves out what
-- its caller does not use.
create or replace function treadle.limit_room(p_name varchar, p_key varchar, p_wanted bigint, p_now timestamptz)
returns table (
    kind varchar, amount int, period interval, burst int,
    for_key boolean, changed_by text, changed_at timestamptz, -- the amount was set for this key
    capacity int, -- how many may run, or start at once; null: not limited, or none
    step interval, -- of a rate: from one start to the next
    version bigint, jobs uuid[], leases bigint[], weights int[], weight bigint, found int, full_at timestamptz, closed_until timestamptz,
    room int,
    opens_at timestamptz -- when there is room for one job, if that is known
)
language sql stable
as $$
    select
        rule.kind, limited.amount, rule.period, rule.burst,
        own.amount is not null,
        case when own.amount is null then rule.changed_by else own.changed_by end,
        case when own.amount is null then rule.changed_at else own.changed_at end,
        limited.capacity, rule.period / nullif(limited.amount, 0),
        state.version, state.jobs, state.leases, state.weights, state.weight, state.found, state.full_at, state.closed_until,
        case
            when limited.amount is null then 2147483647
            when limited.amount = 0 or state.closed_until > p_now then 0
            when rule.kind = 'rate'
                then floor(
                    limited.capacity
                    - extract(epoch from greatest(state.full_at, p_now) - p_now) * limited.amount / extract(epoch from rule.period)
                    + 1e-6
                )::int
            when p_wanted is not null
                and limited.amount - coalesce(state.weight, 0) >= least(p_wanted, greatest(1, limited.amount / 2))
                then (limited.amount - coalesce(state.weight, 0))::int
            else (
                limited.amount - (
                    select coalesce(sum(held.weight), 0)
                    from treadle.slots_in_use(state.jobs, state.leases, state.weights) as held
                )
            )::int
        end,
        case
            when coalesce(limited.amount, 0) = 0 then null
            when state.closed_until > p_now then greatest(state.closed_until, limited.opens_at)
            else limited.opens_at
        end
    from treadle.limits as rule
    left join lateral (
        -- With a limit: otherwise the planner could compare all keys with each.
        select known.amount, known.changed_by, known.changed_at
        from treadle.limit_keys as known
        where known.name = rule.name
          and known.key = p_key
        limit 1
    ) as own on true
    left join lateral (
        select holders.*
        from treadle.limit_holders as holders
        where holders.name = rule.name
          and holders.key = p_key
        order by holders.version desc
        limit 1
    ) as state on true
    cross join lateral (
        select
            known.amount,
            known.capacity,
            state.full_at - (known.capacity - 1) * rule.period / nullif(known.amount, 0) as opens_at
        from (
            select
                coalesce(own.amount, rule.amount) as amount,
                coalesce(rule.burst, nullif(coalesce(own.amount, rule.amount), 0)) as capacity
        ) as known
    ) as limited
    where rule.name = p_name
$$;
