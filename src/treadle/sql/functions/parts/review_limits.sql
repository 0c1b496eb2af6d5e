-- A part of tick(): lanes whose limit had an opening that no claim has used, and still has room, become active. And
-- the limits that the lanes wait for which the tick examines in turn: nothing waits forever because an opening was not
-- noted.
create or replace function treadle.review_limits(p_now timestamptz, p_names varchar[], p_keys varchar[]) returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    c_recent constant interval := '1 second';
    c_limits constant bigint := 100;
    v_names varchar[];
    v_keys varchar[];
    v_most bigint[];
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
    select array_agg(opening.name), array_agg(opening.key), array_agg(c_limits)
    into v_names, v_keys, v_most
    from (
        select distinct opening.name, opening.key
        from opening
        where treadle.has_room(opening.name, opening.key, p_now)
    ) as opening;
    perform treadle.wake_lanes(p_now, v_names, v_keys, v_most);

    insert into treadle.limit_openings (opens_at, name, key)
    select p_now, waiting.name, waiting.key
    from (
        select distinct listed.name, listed.key
        from unnest(p_names, p_keys) as listed (name, key)
        limit c_limits
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
