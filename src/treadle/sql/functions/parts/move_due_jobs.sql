-- After the clock was set back: moves jobs that were due before, and would now be due later, to the current time. They
-- keep their order, and stay behind those that have been due for longer. A part of tick().
--
-- The clock showed p_from at the tick p_seen, the last one before the jump. A job with a run_at up to p_from was due if
-- its row was written before that tick. If it was written later, nobody knows on which side of the jump. A job that was
-- created by a clock that is ahead of the current one was enqueued before it; one that came back (a retry, a release)
-- or was unblocked most likely was, too. Any other may be a new job with a run_at of its own, and obeys the clock.
--
-- p_late: only jobs that a transaction from before the jump has committed late. By then, others may have come back
-- since.
--
-- p_shift: retries, and others that come back after a delay, are due as much earlier as the clock was set back. Once
-- only: a second time would shift them again.
--
-- At most p_limit jobs, so that a long backlog is moved in several ticks. Returns whether that was reached.
create or replace function treadle.move_due_jobs(
    p_from timestamptz,
    p_seen xid8,
    p_now timestamptz,
    p_shift boolean,
    p_late boolean,
    p_limit int default 5000
) returns boolean
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    -- Jobs that came back and are due later than this are not shifted.
    c_ahead constant interval := '1 hour';
    -- A transaction that inserts jobs by hand gives them the time of its beginning as created_at.
    c_late constant interval := '1 second';
    -- Usually there is a tick every second: so these come before the jobs that were enqueued since the jump. And the claim that
    -- made the tick has read the clock before it.
    c_before constant interval := '1 second';
    v_lanes constant treadle.lane[] := array(
        select distinct row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane
        from treadle.lanes as lane
        where treadle.is_listed(lane.dormant_xid, lane.limit_name)
           or lane.wakes_at > p_now
    );
    v_moved int;
begin
    with due as materialized (
        select job.place, job.run_at
        from unnest(v_lanes) as lane
        cross join lateral (
            select job.ctid as place, job.run_at
            from treadle.jobs as job
            where treadle.is_in_lane(job.queue, job.job_type, job.priority, job.partition, lane)
              and job.run_at > p_now
              and job.run_at <= greatest(p_from, p_now + interval '1 day') + c_late
              and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
              and (
                    job.run_at <= p_from
                    and (
                        age(job.xmin) > age(p_seen::xid)
                        or job.created_at > p_now
                        or not p_late and (job.lease > 0 or job.key is not null)
                    )
                    or job.created_at > p_now and job.run_at <= job.created_at + c_late
              )
            order by job.run_at
            limit p_limit
            for no key update skip locked
        ) as job
        order by job.run_at
        limit p_limit
    ),
    numbered as materialized (
        select due.place, count(*) over () - row_number() over (order by due.run_at) as behind
        from due
    )
    update treadle.jobs as job
    set run_at = p_now - c_before - numbered.behind * interval '1 microsecond'
    from numbered
    where job.ctid = numbered.place;

    get diagnostics v_moved = row_count;

    if p_shift then
        update treadle.jobs as job
        set run_at = greatest(job.run_at - (p_from - p_now), p_now)
        where job.ctid = any (array(
                select later.place
                from unnest(v_lanes) as lane
                cross join lateral (
                    select job.ctid as place
                    from treadle.jobs as job
                    where treadle.is_in_lane(job.queue, job.job_type, job.priority, job.partition, lane)
                      and job.run_at > p_from
                      and job.run_at <= p_from + c_ahead
                      and job.lease > 0
                      and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
                    limit p_limit
                    for no key update skip locked
                ) as later
              ));
    end if;

    return v_moved >= p_limit;
end
$$;
