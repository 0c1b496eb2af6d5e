-- Locks the limits of lanes that a claim is about to take jobs from, and says how many jobs of each they allow at most.
-- A part of claim_lanes().
--
-- A limit that another claim has locked counts as reached, for this claim: see lock_limit_keys(). So at most one claim
-- at a time takes jobs under a limit, and the number of those that run is exact: they are the jobs of the newest row of
-- limit_holders that are still claimed or running under the same lease. Nothing needs to be counted down when a job
-- ends, by whatever statement. A lane for which there is no room becomes dormant: see wait_for_limits().
create or replace function treadle.lock_limits(
    p_now timestamptz,
    p_lanes treadle.lane[],
    p_wait boolean, -- there are no other jobs that could be claimed instead
    inout shares int[], -- how many jobs of each are wanted; then, how many are allowed
    out lanes int[], -- which of these lanes has
    out limits int[], -- which of these limits
    out names varchar[], -- the limits that were locked
    out keys varchar[],
    out room int[], -- and how much room they have
    out enough boolean -- all of these jobs fit, unless one has a weight
)
language plpgsql
set enable_hashjoin = on -- for joins of lists
as $$
declare
    c_recent constant interval := '10 seconds'; -- as in lanes_with_room.sql
    v_wanted bigint[];
    v_locked int[];
    v_closed varchar[];
    v_opens timestamptz[];
begin
    with need as materialized (
        select lane.nth as lane, rule.name, rule.key, dense_rank() over (order by rule.name, rule.key) as nth
        from unnest(p_lanes) with ordinality as lane (queue, job_type, priority, partition, nth)
        cross join lateral treadle.limits_of(lane.queue, lane.job_type, lane.partition) as rule
    ),
    used as materialized (
        select need.nth, need.name, need.key, sum(shares[need.lane]) as wanted
        from need
        group by need.nth, need.name, need.key
        order by need.nth
    )
    select
        (select array_agg(need.lane) from need), (select array_agg(need.nth) from need),
        array_agg(used.name), array_agg(used.key), array_agg(used.wanted)
    into lanes, limits, names, keys, v_wanted
    from used;

    if names is null then
        enough := true;
        return;
    end if;

    -- An older snapshot does not see which jobs use a limit. Such a claim finds every limit locked.
    v_locked := case when treadle.is_read_committed() then treadle.lock_limit_keys(names, keys, p_wait) else '{}' end;

    -- Jobs may use it that were not claimed under it.
    if v_locked <> '{}' and exists (select from treadle.unlisted_limits) then
        v_closed := treadle.list_running_jobs();
        v_locked := array(
            select locked.nth
            from unnest(v_locked) as locked (nth)
            where names[locked.nth] <> all (v_closed)
        );
    end if;
    if exists (select from treadle.unlisted_jobs) then
        perform treadle.list_jobs(names, keys, v_locked);
    end if;

    -- Before the holders are read: an opening that is noted after this stays.
    delete from treadle.limit_openings as opening
    where (opening.opens_at, opening.id) in (
        select known.opens_at, known.id
        from unnest(names, keys) with ordinality as used (name, key, nth)
        join treadle.limit_openings as known on known.name = used.name and known.key = used.key
        where used.nth = any (v_locked)
          and known.opens_at > p_now - c_recent
          and known.opens_at <= p_now
        for update of known skip locked
    );

    -- What is not locked has no room for this claim, and is not to be changed.
    select
        array_agg(case when used.nth = any (v_locked) then greatest(state.room, 0) else -1 end order by used.nth),
        array_agg(state.opens_at order by used.nth)
    into room, v_opens
    from unnest(names, keys, v_wanted) with ordinality as used (name, key, wanted, nth)
    left join lateral treadle.limit_room(used.name, used.key, used.wanted, p_now) as state on true;

    select array_agg(least(lane.share, allowed.jobs) order by lane.nth)
    into shares
    from unnest(shares) with ordinality as lane (share, nth)
    left join (
        select need.lane, min(greatest(room[need.nth], 0)) as jobs
        from unnest(lanes, limits) as need (lane, nth)
        group by need.lane
    ) as allowed on allowed.lane = lane.nth;

    enough := not exists (
        select
        from unnest(lanes, limits) as need (lane, nth)
        group by need.nth
        having sum(shares[need.lane]) > greatest(room[need.nth], 0)
    );
    if not 0 = any (room) then
        return;
    end if;

    -- Not those of a limit that is only locked.
    perform treadle.wait_for_limits(
        p_now, array_agg(p_lanes[reached.lane]),
        array_agg(names[reached.nth]), array_agg(keys[reached.nth]), array_agg(v_opens[reached.nth])
    )
    from (
        select distinct on (need.lane) need.lane, need.nth
        from unnest(lanes, limits) as need (lane, nth)
        where room[need.nth] = 0
        order by need.lane, v_opens[need.nth] desc nulls first
    ) as reached
    having count(*) > 0;
end
$$;
