-- Renamed in version 0.2 to claimable_lanes(). A call of version 0.1 that began before the upgrade may still use it.
-- May be dropped in version 0.3.
create or replace function treadle.wanted_lanes(p_job_types varchar[], p_queues varchar[], p_fresh boolean)
returns table (queue varchar, job_type varchar, priority int, start timestamptz)
language sql stable
as $$
    select (wanted.lane).queue, (wanted.lane).job_type, (wanted.lane).priority, wanted.start
    from treadle.claimable_lanes(p_job_types, p_queues, p_fresh) as wanted
$$;

comment on function treadle.wanted_lanes(varchar[], varchar[], boolean) is 'Deprecated: use claimable_lanes(). Dropped in version 0.3.';
