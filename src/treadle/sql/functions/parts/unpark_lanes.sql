-- A part of tick(): lanes whose limit had an opening that no claim has used, and still has room, are searched again by every
-- claim. And a few others in turn: nothing waits for ever because an opening was not noted.
create or replace function treadle.unpark_lanes(p_now timestamptz) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    c_recent constant interval := '1 second';
    c_examined constant int := 100;
    v_from bigint;
begin
    with opening as materialized (
        delete from treadle.limit_openings as opening
        where (opening.opens_at, opening.id) in (
            select old.opens_at, old.id
            from treadle.limit_openings as old
            where old.opens_at <= p_now - c_recent
            limit 5000
            for update skip locked
        )
        returning opening.name, opening.key
    )
    update treadle.lanes as lane
    set parked_name = null,
        parked_key = null
    where lane.id = any (array(
            select known.id
            from (
                select distinct opening.name, opening.key
                from opening
                where treadle.has_room(opening.name, opening.key, p_now)
            ) as opening
            cross join lateral (
                select known.id
                from treadle.lanes as known
                where known.parked_name = opening.name
                  and known.parked_key = opening.key
                order by known.priority desc
                limit 10
                for update skip locked
            ) as known
          ));

    select (min(lane.id) + random() * (max(lane.id) - min(lane.id)))::bigint
    into v_from
    from treadle.lanes as lane
    where lane.parked_name is not null;
    if v_from is null then
        return;
    end if;

    insert into treadle.limit_openings (opens_at, name, key)
    select p_now, waiting.name, waiting.key
    from (
        select distinct lane.parked_name as name, lane.parked_key as key
        from (
            select lane.parked_name, lane.parked_key
            from treadle.lanes as lane
            where lane.parked_name is not null
              and lane.id >= v_from
            order by lane.id
            limit c_examined
        ) as lane
    ) as waiting
    where treadle.has_room(waiting.name, waiting.key, p_now)
      and not exists (
            select
            from treadle.limit_openings as known
            where known.name = waiting.name
              and known.key = waiting.key
              and known.opens_at > p_now - c_recent
              and known.opens_at <= p_now
          );
end
$$;

comment on function treadle.unpark_lanes(timestamptz)
    is 'Makes parked lanes active again whose limit had an opening, and looks whether other limits have room.';
