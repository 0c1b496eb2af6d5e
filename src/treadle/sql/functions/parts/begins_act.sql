-- Whether a change begins an act, so that it is carried out: false if the act was begun before. If somebody has the lock, then
-- another call is just beginning it; one that continues it need not know.
create or replace function treadle.begins_act(p_act uuid, p_continues boolean default false) returns boolean
language plpgsql
as $$
begin
    return p_act is null
        or (p_continues or pg_try_advisory_xact_lock(hashtext('treadle act'), hashtext(p_act::text)))
        and not exists (select from treadle.audit as entry where entry.act = p_act and entry.begins);
end
$$;
