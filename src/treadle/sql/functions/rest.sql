-- A worker that found nothing goes to rest: it asks to be woken, then looks once more. Returns the seconds until the
-- next job of these types is due (0 or less: now), or null if there is none.
create or replace function treadle.rest(
    p_job_types varchar[],
    p_queues varchar[] default null,
    p_sure boolean default false
) returns double precision
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_indexscan = on
set enable_nestloop = on
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_fresh boolean;
    v_next timestamptz;
begin
    -- Only if it was rung since: an idle worker writes nothing.
    if (select bell.last_value from treadle.bell as bell) <> 0 then
        perform setval('treadle.bell', 0);
    end if;

    -- Who has to be sure that nothing is left looks below the floors, too: a late commit may lie there for a moment.
    v_fresh := not p_sure and treadle.tick_is_fresh();

    select min(head.run_at)
    into v_next
    from treadle.wanted_lanes(p_job_types, p_queues, v_fresh) as lane
    cross join lateral (
        select job.run_at
        from treadle.jobs as job
        where job.queue = lane.queue
          and job.job_type = lane.job_type
          and job.priority = lane.priority
          and job.run_at >= lane.start
          and job.status = 'pending'
          and job.holds = 0
          and job.attempts < job.max_attempts
        order by job.run_at
        limit 1
    ) as head;

    return extract(epoch from v_next - clock_timestamp());
end
$$;

comment on function treadle.rest(varchar[], varchar[], boolean)
    is 'For a worker that found nothing: it will be woken by NOTIFY. Returns the seconds until the next job of these types is due, null if there is none.';
