-- For a worker that found no job: requests a notification of new jobs, then searches once more. In this order, so that no
-- job can arrive unnoticed between the two.
create or replace function treadle.next_due(
    p_job_types varchar[],
    p_queues varchar[] default null,
    p_sure boolean default false,
    p_numbers boolean default false
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
    v_last bigint;
    v_fresh boolean;
    v_next timestamptz;
begin
    -- Only if workers were notified since the last call: an idle worker writes nothing. A client that does not understand
    -- the numbers of notifications (see notify_at_commit()) is not forgotten because of one that does.
    select clock.last_value into v_last from treadle.wake_clock as clock;
    if v_last > 1 or v_last = 1 and not p_numbers then
        perform setval('treadle.wake_clock', p_numbers::int);
    end if;

    -- To be sure that no job is left, also search below the floors: a job that was committed late may lie there.
    v_fresh := not p_sure and treadle.tick_is_fresh();

    select min(head.run_at)
    into v_next
    from treadle.claimable_lanes(p_job_types, p_queues, v_fresh) as wanted
    cross join lateral (
        select job.run_at
        from treadle.lane_jobs(wanted.lane, wanted.start) as job
        order by job.run_at
        limit 1
    ) as head;

    return extract(epoch from v_next - clock_timestamp());
end
$$;

comment on function treadle.next_due(varchar[], varchar[], boolean, boolean)
    is 'For a worker that found no job: from now on it is notified of new ones. Returns the seconds until the next job of these types is due (0 or less: now), null if there is none.';
