-- For a worker that sleeps (decision 53), which calls it once a minute: the seconds until there is something to do (0
-- or less: now); null: nothing is known. Unlike next_due(), it makes no tick and writes nothing.
--
-- Without a recent tick, a floor is trusted only if every transaction that has ended since the last one knew it: see
-- safe_floor(). For the same reason, lanes that a recent tick made dormant are searched, too. p_declared: the digests
-- of the caller's schedules.
create or replace function treadle.next_work(
    p_worker_id varchar,
    p_job_types varchar[],
    p_queues varchar[] default null,
    p_declared varchar[] default '{}'
) returns double precision
language plpgsql stable
set treadle.plan = cached_index_ranges
as $$
declare
    c_long constant interval := '1 year';
    v_now constant timestamptz := clock_timestamp();
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_next timestamptz;
    v_schedule double precision;
begin
    -- It is taken for lost; a tick has something to do; or a claim of it was carried out after it had given up waiting for the reply.
    if not exists (
            select
            from treadle.workers as worker
            where worker.worker_id = p_worker_id
              and worker.lost_at is null
              and worker.seen_at >= v_now - worker.lease
        )
        or exists (select from treadle.member_changes)
        or exists (select from treadle.limit_openings as opening where opening.opens_at <= v_now)
        or exists (
            select
            from treadle.jobs as job
            where job.worker_id = p_worker_id
              and job.status in ('claimed', 'running')
        )
    then
        return 0;
    end if;

    select min(head.run_at)
    into v_next
    from (
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.dormant_xid is null
          and lane.job_type = any (p_job_types)
        union
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.dormant_xid >= v_safe.next_xid
          and lane.limit_name is null
          and lane.job_type = any (p_job_types)
        union
        select lane.queue, lane.job_type, lane.priority, lane.partition
        from treadle.lanes as lane
        where lane.dormant_xid = any (v_safe.running)
          and lane.limit_name is null
          and lane.job_type = any (p_job_types)
    ) as lane
    left join lateral treadle.safe_floor(row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane, v_safe) as safe
        on true
    cross join lateral treadle.lane_head(
        row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane, coalesce(safe.floor, '-infinity')
    ) as head
    where (p_queues is null or lane.queue = any (p_queues))
      and not exists (select from treadle.pauses_of(lane.job_type, lane.queue));

    v_next := least(
        v_next,
        treadle.next_wake_after(p_job_types, p_queues, '-infinity'),
        treadle.next_opening(p_job_types, p_queues),
        (select min(entry.look_at) from treadle.expiries as entry),
        (select min(noted.look_at) from treadle.dependency_checks as noted)
    );

    -- One that has no time yet is due.
    select min(coalesce(due.seconds, 0))
    into v_schedule
    from treadle.find_due_schedules(20, p_declared) as due;

    -- Before PostgreSQL 17, infinite times cannot be subtracted.
    return least(
        v_schedule,
        case when v_next is not null then extract(epoch from greatest(least(v_next, v_now + c_long), v_now - c_long) - v_now) end
    );
end
$$;
