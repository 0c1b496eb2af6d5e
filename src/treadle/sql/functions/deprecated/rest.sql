-- Renamed in version 0.2 to next_due(). Processes of version 0.1 call it by this name during a rolling upgrade.
-- May be dropped in version 0.3.
create or replace function treadle.rest(p_job_types varchar[], p_queues varchar[] default null, p_sure boolean default false) returns double precision
language sql
as $$
    select treadle.next_due(p_job_types, p_queues, p_sure)
$$;

comment on function treadle.rest(varchar[], varchar[], boolean) is 'Deprecated: use next_due(). Dropped in version 0.3.';
