-- Adds the claimed jobs to those that use the limits, which lock_limits() has locked (room is -1 for one that it has
-- not). Lanes that wait for a limit that still has room are searched again by the next claims.
create or replace function treadle.hold_slots(
    p_now timestamptz,
    p_ids uuid[],
    p_lanes treadle.lane[], -- that they are from
    p_limited int[], -- which of these lanes has
    p_limits int[], -- which of these limits
    p_names varchar[],
    p_keys varchar[],
    p_room int[]
) returns void
language plpgsql
set enable_hashjoin = on -- for joins of lists
as $$
declare
    c_jobs constant int := 100;
    v_left bigint[];
begin
    with taken as materialized (
        select slots.nth, slots.jobs, slots.leases, slots.weights, slots.weight
        from treadle.taken_slots(p_ids, p_lanes, p_limited, p_limits) as slots
    ),
    state as materialized (
        select
            taken.*,
            p_names[taken.nth] as name,
            p_keys[taken.nth] as key,
            holders.kind, holders.version,
            kept.*,
            coalesce(holders.step, '0') as step,
            -- By the clock: jobs count from when they were claimed, not from when the claim began, which may be long ago.
            greatest(holders.full_at, clock_timestamp()) as full_at,
            coalesce(holders.closed_until, '-infinity') as closed_until
        from taken
        cross join lateral treadle.limit_room(p_names[taken.nth], p_keys[taken.nth], null, p_now) as holders
        -- Those that have ended are left out when the list has become twice as long, or the limit seems to be reached.
        cross join lateral (
            select
                holders.kind = 'rate'
                or coalesce(
                    holders.weight + taken.weight <= holders.amount
                    and cardinality(holders.jobs) < 2 * holders.found + c_jobs,
                    false
                ) as all_stay
        ) as checked
        cross join lateral (
            select holders.jobs, holders.leases, holders.weights, holders.weight, holders.found
            where checked.all_stay
            union all
            select
                coalesce(array_agg(held.id), '{}'), coalesce(array_agg(held.lease), '{}'),
                coalesce(array_agg(held.weight), '{}'), coalesce(sum(held.weight), 0), count(*)
            from treadle.slots_in_use(holders.jobs, holders.leases, holders.weights) as held
            where not checked.all_stay
            having not checked.all_stay
        ) as kept (kept_jobs, kept_leases, kept_weights, kept_weight, found)
    ),
    written as (
        insert into treadle.limit_holders (name, key, version, jobs, leases, weights, weight, found, full_at, closed_until)
        select
            state.name,
            state.key,
            coalesce(state.version, 0) + 1,
            case when state.kind = 'rate' then '{}' else state.kept_jobs || state.jobs end,
            case when state.kind = 'rate' then '{}' else state.kept_leases || state.leases end,
            case when state.kind = 'rate' then '{}' else state.kept_weights || state.weights end,
            case when state.kind = 'rate' then 0 else state.kept_weight + state.weight end,
            coalesce(state.found, 0),
            case when state.kind = 'rate' then state.full_at + state.weight * state.step else '-infinity' end,
            state.closed_until
        from state
    ),
    replaced as (
        delete from treadle.limit_holders as holders
        using state
        where holders.name = state.name
          and holders.key = state.key
          and holders.version = state.version
    )
    select array_agg(used.room - coalesce(taken.weight, 0) order by used.nth)
    into v_left
    from unnest(p_room) with ordinality as used (room, nth)
    left join taken on taken.nth = used.nth;

    perform treadle.wake_lanes(p_now, p_names, p_keys, v_left);
end
$$;
