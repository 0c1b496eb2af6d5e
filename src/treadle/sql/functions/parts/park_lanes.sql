-- Parks lanes whose jobs wait for a limit, one element of each list per lane: claims do not search them until there is an
-- opening of the limit (see limits_with_room.sql). One is written when a job ends (see note_openings.sql), for a limit per
-- period at p_opens, when the next job may start, and once shortly after a lane was parked: whoever ended a job meanwhile may
-- not have notified anybody.
create or replace function treadle.park_lanes(
    p_now timestamptz,
    p_lanes treadle.lane[],
    p_names varchar[],
    p_keys varchar[],
    p_opens timestamptz[]
) returns void
language plpgsql
as $$
declare
    c_again constant interval := '100 milliseconds';
begin
    with parking as materialized (
        select row(each.queue, each.job_type, each.priority, each.partition)::treadle.lane as lane, each.name, each.key, each.opens_at
        from unnest(p_lanes, p_names, p_keys, p_opens) as each (queue, job_type, priority, partition, name, key, opens_at)
    ),
    parked as (
        update treadle.lanes as lane
        set parked_name = known.name,
            parked_key = known.key,
            parked_at = p_now
        from (
            select known.id, parking.name, parking.key
            from parking
            cross join lateral (
                select known.id
                from treadle.lanes as known
                where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, parking.lane)
                  -- Written so that only the index of lanes matches, not that of all active ones.
                  and coalesce(known.idle_xid, '0') = '0'
                  and (known.parked_name, known.parked_key) is distinct from (parking.name, parking.key)
                for update skip locked
            ) as known
        ) as known
        where lane.id = known.id
        returning known.name, known.key
    )
    insert into treadle.limit_openings (opens_at, name, key)
    select reached.opens_at, reached.name, reached.key
    from (
        select p_now + c_again as opens_at, parked.name, parked.key
        from parked
        where not exists (
            select
            from parking
            where parking.name = parked.name
              and parking.key = parked.key
              and parking.opens_at is not null
        )
        union
        select parking.opens_at, parking.name, parking.key
        from parking
        where parking.opens_at is not null
    ) as reached
    where not exists (
        select
        from treadle.limit_openings as known
        where known.name = reached.name
          and known.key = reached.key
          and known.opens_at > p_now
          and known.opens_at <= reached.opens_at
    );
end
$$;

comment on function treadle.park_lanes(timestamptz, treadle.lane[], varchar[], varchar[], timestamptz[])
    is 'Parks lanes whose jobs wait for a limit.';
