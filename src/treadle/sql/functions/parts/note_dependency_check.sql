-- Decides at commit, or later, what these jobs wait for; or, if they have ended, what that means for those that wait
-- for them. In several rows, so that each is decided in a short time. Runs with the rights of its owner: whoever ends a
-- job may not know which others wait for it.
create or replace function treadle.note_dependency_check(
    p_ids uuid[],
    p_ended boolean,
    p_past uuid default null,
    p_later boolean default false
) returns void
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    c_ids constant int := 1000;
    v_requests tid[];
begin
    if p_later then
        insert into treadle.dependency_checks (noted_at, jobs, ended, past)
        select clock_timestamp(), p_ids[first : first + c_ids - 1], p_ended, p_past
        from generate_series(1, cardinality(p_ids), c_ids) as first;
        return;
    end if;

    with requests as (
        insert into treadle.dependency_requests (jobs, ended, past)
        select p_ids[first : first + c_ids - 1], p_ended, p_past
        from generate_series(1, cardinality(p_ids), c_ids) as first
        returning dependency_requests.ctid as place
    )
    select array_agg(requests.place) into v_requests from requests;
    delete from treadle.dependency_requests as request where request.ctid = any (v_requests);
end
$$;
