-- Tells who waits for a result that these jobs have ended. Nobody waits: nothing is sent.
create or replace function treadle.announce(p_ids uuid[]) returns void
language plpgsql
as $$
declare
    -- A notification takes less than 8,000 bytes.
    c_ids constant int := 200;
    v_last bigint;
begin
    select awaited.last_value into v_last from treadle.awaited as awaited;
    if v_last < extract(epoch from clock_timestamp()) * 1000000
        or current_setting('treadle' || '.notify', true) = 'off'
    then
        return;
    end if;

    perform pg_notify(treadle.channel('ends'), array_to_string(p_ids[first : first + c_ids - 1], ','))
    from generate_series(1, cardinality(p_ids), c_ids) as first;
end
$$;

comment on function treadle.announce(uuid[]) is 'Part of ending jobs: sends their ids to whoever waits for them.';
