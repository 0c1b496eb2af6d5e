-- Sends the ids of jobs to the sessions that wait for the jobs to finish (ends), or that watch their events and
-- progress (news). Nothing is sent unless a session has requested it: see request_notifications().
create or replace function treadle.announce(p_ids uuid[], p_kind text default 'ends') returns void
language plpgsql
as $$
declare
    -- The payload of a notification must be shorter than 8,000 bytes.
    c_ids constant int := 200;
begin
    if not treadle.is_requested(case p_kind when 'ends' then regclass 'treadle.awaited' else 'treadle.watched' end) then
        return;
    end if;

    perform treadle.send_notification(p_kind, array_to_string(p_ids[first : first + c_ids - 1], ','))
    from generate_series(1, cardinality(p_ids), c_ids) as first;
end
$$;
