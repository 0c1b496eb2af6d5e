-- A part of lock_limits(): jobs that use these limits without having been claimed under them (unlisted_jobs) are moved
-- to limit_holders. For a rate, they count as started when they were noted.
create or replace function treadle.list_jobs(p_names varchar[], p_keys varchar[], p_locked int[]) returns void
language plpgsql
set enable_hashjoin = on -- for joins of lists
as $$
begin
    with noted as (
        delete from treadle.unlisted_jobs as noted
        where noted.id = any (array(
            select known.id
            from unnest(p_names, p_keys) with ordinality as used (name, key, nth)
            join treadle.unlisted_jobs as known on known.name = used.name and known.key = used.key
            where used.nth = any (p_locked)
            for update of known skip locked -- the tick deletes those that have ended
        ))
        returning noted.*
    ),
    state as materialized (
        select used.name, used.key, holders.*
        from (select distinct noted.name, noted.key from noted) as used
        cross join lateral treadle.limit_room(used.name, used.key, 0, clock_timestamp()) as holders
    ),
    added as materialized (
        select
            noted.name, noted.key, array_agg(noted.job) as jobs, array_agg(noted.lease) as leases, array_agg(noted.weight) as weights,
            sum(noted.weight) as weight, min(noted.noted_at) as noted_at
        from (
            select distinct on (each.name, each.key, each.job, each.lease) each.*
            from noted as each
        ) as noted
        where (noted.name, noted.key, noted.job, noted.lease) not in (
            select state.name, state.key, held.id, held.lease
            from state
            cross join lateral unnest(state.jobs, state.leases) as held (id, lease)
        )
        group by noted.name, noted.key
    ),
    replaced as (
        delete from treadle.limit_holders as holders
        using added
        join state on state.name = added.name and state.key = added.key
        where holders.name = state.name
          and holders.key = state.key
          and holders.version = state.version
    )
    insert into treadle.limit_holders (name, key, version, jobs, leases, weights, weight, found, full_at, closed_until)
    select
        state.name,
        state.key,
        coalesce(state.version, 0) + 1,
        case when state.kind = 'rate' then '{}' else state.jobs || added.jobs end,
        case when state.kind = 'rate' then '{}' else state.leases || added.leases end,
        case when state.kind = 'rate' then '{}' else state.weights || added.weights end,
        case when state.kind = 'rate' then 0 else coalesce(state.weight, 0) + added.weight end,
        coalesce(state.found, 0),
        case
            when state.kind = 'rate'
            then greatest(state.full_at, added.noted_at) + added.weight * coalesce(state.step, '0')
            else '-infinity'
        end,
        coalesce(state.closed_until, '-infinity')
    from added
    join state on state.name = added.name and state.key = added.key;
end
$$;
