-- Where to look for jobs of these types: each lane once, with the time from which on a look has to begin. That is the
-- floor if it can be trusted (tick_is_fresh), else settled. Lanes that are paused are left out.
--
-- Called stable so that the planner makes it a part of the statement that asks; it would not otherwise.
create or replace function treadle.wanted_lanes(p_job_types varchar[], p_queues varchar[], p_fresh boolean)
returns table (queue varchar, job_type varchar, priority int, start timestamptz)
language sql stable
as $$
    select
        lane.queue,
        lane.job_type,
        lane.priority,
        max(case when p_fresh then lane.floor else lane.settled end)
    from treadle.lanes as lane
    where lane.job_type = any (p_job_types)
      and (p_queues is null or lane.queue = any (p_queues))
      and not exists (
            select
            from treadle.pauses as pause
            where pause.job_type in (lane.job_type, '')
              and pause.queue in (lane.queue, '')
      )
    group by lane.queue, lane.job_type, lane.priority
$$;

comment on function treadle.wanted_lanes(varchar[], varchar[], boolean)
    is 'Part of claiming: the lanes of these types that are not paused, with the time from which on a look for jobs has to begin.';
