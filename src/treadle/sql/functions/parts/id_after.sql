-- The new id p_id, or one that is higher than p_earlier if the clock was set back since: jobs with a key are ordered by
-- their ids, which contain the time. It continues from the earlier id: its time, and a quarter of a microsecond. Only
-- for an id that the server has just made: one that was given with the job is not changed.
create or replace function treadle.id_after(p_id uuid, p_earlier uuid) returns uuid
language plpgsql volatile
as $$
declare
    c_made constant interval := '10 seconds';
    v_id constant text := replace(p_id::text, '-', '');
    v_earlier constant text := replace(p_earlier::text, '-', '');
    v_made constant timestamptz := to_timestamp(('x0000' || left(v_id, 12))::bit(64)::bigint / 1000.0);
    v_time text;
begin
    if p_id > p_earlier
        or substr(v_id, 13, 1) <> '7'
        or substr(v_earlier, 13, 1) <> '7'
        or abs(extract(epoch from clock_timestamp() - v_made)) > extract(epoch from c_made)
    then
        return p_id;
    end if;

    -- The 48 bits of milliseconds and the 12 of their fraction, plus one.
    v_time := lpad(to_hex(('x0' || left(v_earlier, 12) || substr(v_earlier, 14, 3))::bit(64)::bigint + 1), 15, '0');
    return (left(v_time, 12) || '7' || right(v_time, 3) || substr(v_id, 17))::uuid;
end
$$;
