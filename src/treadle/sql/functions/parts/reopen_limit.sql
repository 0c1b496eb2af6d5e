-- After a limit was changed: lanes that wait for it are searched again.
create or replace function treadle.reopen_limit(p_name varchar) returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    insert into treadle.limit_openings (opens_at, name, key)
    select distinct v_now, lane.limit_name, lane.limit_key
    from treadle.lanes as lane
    where lane.limit_name = p_name;
    if found then
        perform treadle.wake_workers(v_now);
    end if;
end
$$;
