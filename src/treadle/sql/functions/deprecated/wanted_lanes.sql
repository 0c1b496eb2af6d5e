-- Part of claim_jobs() until version 0.2. A call of version 0.1 that began before the upgrade may still use it.
-- May be dropped in version 0.3.
create or replace function treadle.wanted_lanes(p_job_types varchar[], p_queues varchar[], p_fresh boolean)
returns table (queue varchar, job_type varchar, priority int, start timestamptz)
language sql stable
as $$
    select distinct lane.queue, lane.job_type, lane.priority, '-infinity'::timestamptz
    from treadle.lanes as lane
    where lane.job_type = any (p_job_types)
      and (p_queues is null or lane.queue = any (p_queues))
      and not exists (
            select
            from treadle.pauses as pause
            where pause.job_type in (lane.job_type, '')
              and pause.queue in (lane.queue, '')
      )
$$;

comment on function treadle.wanted_lanes(varchar[], varchar[], boolean) is 'Deprecated: part of claim_jobs(). Dropped in version 0.3.';
