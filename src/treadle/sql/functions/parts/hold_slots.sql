-- Adds the claimed jobs to those that use the limits, which lock_limits() has locked: room is -1 for one that it has not. Lanes
-- that are parked for a limit that still has room are searched again by the next claims.
create or replace function treadle.hold_slots(
    p_now timestamptz,
    p_places tid[],
    p_names varchar[],
    p_keys varchar[],
    p_room int[]
) returns void
language plpgsql
set enable_hashjoin = on -- for joins of lists
as $$
declare
    c_lanes constant int := 10;
    c_jobs constant int := 100;
    v_left bigint[];
begin
    with taken as materialized (
        select
            used.nth,
            array_agg(job.id) as jobs,
            array_agg(job.lease) as leases,
            array_agg(coalesce(job.weight, 1)) as weights,
            sum(coalesce(job.weight, 1)) as weight
        from treadle.jobs as job
        cross join lateral treadle.limits_of(job.queue, job.job_type, job.partition) as rule
        join unnest(p_names, p_keys) with ordinality as used (name, key, nth) on used.name = rule.name and used.key = rule.key
        where job.ctid = any (p_places)
        group by used.nth
    ),
    state as materialized (
        select
            taken.*,
            p_names[taken.nth] as name,
            p_keys[taken.nth] as key,
            holders.version,
            coalesce(kept.jobs, '{}') as kept_jobs,
            coalesce(kept.leases, '{}') as kept_leases,
            coalesce(kept.weights, '{}') as kept_weights,
            coalesce(kept.weight, 0) as kept_weight,
            case when checked.unneeded then holders.found else coalesce(kept.jobs_found, 0) end as found,
            rule.period / nullif(coalesce(own.amount, rule.amount), 0) as each,
            greatest(holders.full_at, p_now) as full_at,
            coalesce(holders.closed_until, '-infinity') as closed_until
        from taken
        join treadle.limits as rule on rule.name = p_names[taken.nth]
        left join treadle.limit_keys as own on own.name = rule.name and own.key = p_keys[taken.nth]
        left join lateral (
            select holders.*
            from treadle.limit_holders as holders
            where holders.name = rule.name
              and holders.key = p_keys[taken.nth]
            order by holders.version desc
            limit 1
        ) as holders on true
        cross join lateral (
            select
                holders.weight + taken.weight <= coalesce(own.amount, rule.amount)
                and cardinality(holders.jobs) < 2 * holders.found + c_jobs as unneeded
        ) as checked
        left join lateral (
            -- Those that have ended are left out when the list has become twice as long, or the limit seems to be reached.
            select
                array_agg(held.id) as jobs, array_agg(held.lease) as leases, array_agg(held.weight) as weights,
                sum(held.weight) as weight, count(*) as jobs_found
            from unnest(holders.jobs, holders.leases, holders.weights) as held (id, lease, weight)
            where checked.unneeded
               or treadle.holds_slot(held.id, held.lease)
        ) as kept on rule.period is null
    ),
    written as (
        insert into treadle.limit_holders (name, key, version, jobs, leases, weights, weight, found, full_at, closed_until)
        select
            state.name,
            state.key,
            coalesce(state.version, 0) + 1,
            case when state.each is null then state.kept_jobs || state.jobs else '{}' end,
            case when state.each is null then state.kept_leases || state.leases else '{}' end,
            case when state.each is null then state.kept_weights || state.weights else '{}' end,
            case when state.each is null then state.kept_weight + state.weight else 0 end,
            coalesce(state.found, 0),
            case when state.each is null then '-infinity' else state.full_at + state.weight * state.each end,
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

    -- Some of the lanes that wait longest; the next claim takes care of the others.
    update treadle.lanes as lane
    set parked_name = null,
        parked_key = null
    where lane.id = any (array(
            select known.id
            from unnest(p_names, p_keys, v_left) as used (name, key, room)
            cross join lateral (
                select known.id
                from treadle.lanes as known
                where known.parked_name = used.name
                  and known.parked_key = used.key
                order by known.priority desc
                limit least(used.room, c_lanes)
                for update skip locked
            ) as known
            where used.room > 0
          ));
    if found then
        insert into treadle.limit_openings (opens_at, name, key)
        select p_now, used.name, used.key
        from unnest(p_names, p_keys, v_left) as used (name, key, room)
        where used.room > 0
          and exists (
                select
                from treadle.lanes as known
                where known.parked_name = used.name
                  and known.parked_key = used.key
          );
        perform treadle.wake_workers(p_now);
    end if;
end
$$;

comment on function treadle.hold_slots(timestamptz, tid[], varchar[], varchar[], int[])
    is 'Adds claimed jobs to those that use their limits.';
