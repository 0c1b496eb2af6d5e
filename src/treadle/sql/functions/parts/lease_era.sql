-- The number that the lease numbers of this server exceed: a billion for each promotion that it has seen. A standby that
-- is promoted may lack the last claims of its primary. Its timeline is a new one, so the numbers that it gives are higher.
-- 0 if the server has no timelines: then it loses no claims, either (Amazon Aurora).
create or replace function treadle.lease_era() returns bigint
language plpgsql
as $$
begin
    return (('x' || left(pg_walfile_name('0/1'), 8))::bit(32)::bigint - 1) * 1000000000;
exception
    when feature_not_supported or object_not_in_prerequisite_state or insufficient_privilege then
        return 0;
end
$$;
