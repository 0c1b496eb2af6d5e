-- Makes lanes dormant whose jobs wait for a limit, one element of each list per lane, until there is an opening of the
-- limit (see lanes_with_room.sql). One is noted when a job ends (see note_openings.sql), for a limit per period at
-- p_opens, when the next job may start, and a few times shortly after a lane became dormant: whoever ended a job
-- meanwhile may not have seen that a lane waits.
create or replace function treadle.wait_for_limits(
    p_now timestamptz,
    p_lanes treadle.lane[],
    p_names varchar[],
    p_keys varchar[],
    p_opens timestamptz[]
) returns void
language plpgsql
as $$
declare
    c_looks constant interval[] := '{0, 10 milliseconds, 100 milliseconds, 1 second}';
begin
    with reached as materialized (
        select row(each.queue, each.job_type, each.priority, each.partition)::treadle.lane as lane, each.name, each.key, each.opens_at
        from unnest(p_lanes, p_names, p_keys, p_opens) as each (queue, job_type, priority, partition, name, key, opens_at)
    ),
    dormant as (
        update treadle.lanes as lane
        set dormant_xid = pg_current_xact_id(),
            wakes_at = null,
            limit_name = known.name,
            limit_key = known.key,
            changed_at = p_now
        from (
            select known.id, reached.name, reached.key
            from reached
            cross join lateral (
                select known.id
                from treadle.lanes as known
                where treadle.is_in_lane(known.queue, known.job_type, known.priority, known.partition, reached.lane)
                  and treadle.is_listed(known.dormant_xid, known.limit_name)
                  and (known.limit_name, known.limit_key) is distinct from (reached.name, reached.key)
                for update skip locked
            ) as known
        ) as known
        where lane.id = known.id
        returning known.name, known.key
    )
    insert into treadle.limit_openings (opens_at, name, key)
    select look.opens_at, look.name, look.key
    from (
        select p_now + known.after as after, p_now + known.again as opens_at, dormant.name, dormant.key
        from dormant
        cross join unnest(c_looks, c_looks[2 :]) as known (after, again)
        where known.again is not null
          and not exists (
                select
                from reached
                where reached.name = dormant.name
                  and reached.key = dormant.key
                  and reached.opens_at is not null
          )
        union
        select p_now, reached.opens_at, reached.name, reached.key
        from reached
        where reached.opens_at is not null
    ) as look
    where not exists (
        select
        from treadle.limit_openings as known
        where known.name = look.name
          and known.key = look.key
          and known.opens_at > look.after
          and known.opens_at <= look.opens_at
    );
end
$$;
