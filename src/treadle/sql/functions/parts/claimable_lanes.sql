-- p_fresh comes from tick_is_fresh(), which must be called before this function, in a statement of its own. If the last
-- tick is recent, a search starts at the floor of a lane, otherwise at the proven bound, settled.
--
-- Declared stable so that the planner inlines it into the calling statement.
create or replace function treadle.claimable_lanes(p_job_types varchar[], p_queues varchar[], p_fresh boolean)
returns table (lane treadle.lane, start timestamptz)
language sql stable
as $$
    select known.lane, case when p_fresh then known.floor else known.settled end
    from treadle.known_lanes() as known
    where (known.lane).job_type = any (p_job_types)
      and (p_queues is null or (known.lane).queue = any (p_queues))
      and not exists (
            select
            from treadle.pauses as pause
            where pause.job_type in ((known.lane).job_type, '')
              and pause.queue in ((known.lane).queue, '')
      )
$$;

comment on function treadle.claimable_lanes(varchar[], varchar[], boolean)
    is 'The lanes of these job types, in these queues (null: in all), that are not paused, each with the time at which a search for jobs starts.';
