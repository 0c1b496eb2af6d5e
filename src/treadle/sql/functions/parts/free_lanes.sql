-- Of several lanes, those whose limits no other claim has locked; now this one has. Then a claim reads only jobs that it may take:
-- with eight claims at a time, each would otherwise read the same ones.
create or replace function treadle.free_lanes(
    p_queues varchar[], p_job_types varchar[], p_partitions varchar[], p_wait boolean
) returns int[]
language plpgsql
set enable_hashjoin = on -- for joins of lists
as $$
declare
    v_lanes int[]; -- which lane has which limit
    v_limits int[];
    v_names varchar[];
    v_keys varchar[];
    v_locked int[];
begin
    with need as materialized (
        select lane.nth as lane, rule.name, rule.key, dense_rank() over (order by rule.name, rule.key) as nth
        from unnest(p_queues, p_job_types, p_partitions) with ordinality as lane (queue, job_type, partition, nth)
        cross join lateral treadle.limits_of(lane.queue, lane.job_type, lane.partition) as rule
    ),
    used as materialized (
        select distinct need.nth, need.name, need.key
        from need
        order by need.nth
    )
    select
        (select array_agg(need.lane) from need), (select array_agg(need.nth) from need),
        array_agg(used.name), array_agg(used.key)
    into v_lanes, v_limits, v_names, v_keys
    from used;

    v_locked := treadle.lock_limit_keys(v_names, v_keys, p_wait);
    return array(
        select lane.nth
        from unnest(p_queues) with ordinality as lane (queue, nth)
        where lane.nth <> all (array(
            select need.lane
            from unnest(v_lanes, v_limits) as need (lane, nth)
            where need.nth <> all (v_locked)
        ))
        order by lane.nth
    );
end
$$;

comment on function treadle.free_lanes(varchar[], varchar[], varchar[], boolean)
    is 'Those of these lanes whose limits no other claim has locked; this one locks them.';
