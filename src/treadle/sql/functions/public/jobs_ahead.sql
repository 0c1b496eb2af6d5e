-- How many jobs the live workers that serve this one would claim before it, if it were claimable now: in its own lane,
-- in the other lanes of its priority, and in lanes of higher priority. Counting stops one past p_limit in all.
--
-- It searches as a claim does: one bounded range of idx_jobs_claimable per lane. Jobs that wait for their key, that are
-- due later or paused do not count, nor do other lanes that wait for a limit, nor job types that run in child processes
-- if this one does not: those have slots of their own.
create or replace function treadle.jobs_ahead(p_id uuid, p_limit int default 1000)
returns table (own bigint, level bigint, above bigint)
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_lanes constant int := 500;
    v_now constant timestamptz := clock_timestamp();
    v_safe constant treadle.ticks := treadle.safe_tick(pg_current_snapshot());
    v_job record;
    v_lanes treadle.lane[];
    v_starts timestamptz[];
    v_kinds int[];
    v_kind int;
    v_room bigint := p_limit + 1;
    v_count bigint;
    v_counts bigint[] := '{}';
begin
    select job.id, job.queue, job.job_type, job.priority, job.partition, job.run_at
    into v_job
    from treadle.jobs as job
    where job.id = p_id;
    if not found then
        return;
    end if;

    -- Most workers serve the same types and queues, so these are expanded once.
    with fleet as materialized (
        select distinct worker.queues, worker.together
        from treadle.serving_workers(v_job.queue, v_job.job_type, v_now) as worker
    ),
    served as materialized (
        select distinct fleet.queues, known.job_type
        from fleet
        cross join lateral unnest(fleet.together) as known (job_type)
    ),
    known as materialized (
        select distinct row(listed.queue, listed.job_type, listed.priority, listed.partition)::treadle.lane as lane
        from (
            select v_job.queue, v_job.job_type, v_job.priority, v_job.partition
            union all
            -- Lanes that wait for a limit are left out. Active ones have jobs, nearly all: more of them need not be
            -- counted.
            (
                select active.queue, active.job_type, active.priority, active.partition
                from (select distinct served.job_type from served) as served
                cross join lateral (
                    select lane.queue, lane.job_type, lane.priority, lane.partition
                    from treadle.lanes as lane
                    where lane.job_type = served.job_type
                      and lane.priority >= v_job.priority
                      and lane.dormant_xid is null
                    order by lane.priority desc
                    limit c_lanes
                ) as active
                order by active.priority desc
                limit c_lanes
            )
            union all
            -- Those whose first job has just become due.
            (
                select due.queue, due.job_type, due.priority, due.partition
                from (select distinct served.job_type from served) as served
                cross join lateral (
                    select lane.queue, lane.job_type, lane.priority, lane.partition
                    from treadle.lanes as lane
                    where lane.job_type = served.job_type
                      and lane.dormant_xid is not null
                      and lane.wakes_at <= v_now
                      and lane.priority >= v_job.priority
                      and lane.limit_name is null
                    order by lane.wakes_at
                    limit c_lanes
                ) as due
                limit c_lanes
            )
        ) as listed (queue, job_type, priority, partition)
    ),
    wanted as (
        select
            known.lane,
            coalesce(bound.floor, '-infinity') as start,
            case
                when (known.lane).priority > v_job.priority then 2
                when treadle.is_in_lane(v_job.queue, v_job.job_type, v_job.priority, v_job.partition, known.lane) then 0
                else 1
            end as kind
        from known
        left join lateral treadle.safe_floor(known.lane, v_safe) as bound on true
        where exists (
                select
                from served
                where served.job_type = (known.lane).job_type
                  and (served.queues is null or (known.lane).queue = any (served.queues))
              )
          and (
                ((known.lane).queue, (known.lane).job_type) = (v_job.queue, v_job.job_type)
                or not exists (select from treadle.pauses_of((known.lane).job_type, (known.lane).queue))
              )
    )
    select array_agg(wanted.lane), array_agg(wanted.start), array_agg(wanted.kind)
    into v_lanes, v_starts, v_kinds
    from wanted;

    for v_kind in 0..2 loop
        v_count := (
            select count(*)
            from (
                select
                from generate_subscripts(v_lanes, 1) as nth
                cross join lateral (
                    select
                    from treadle.lane_jobs(v_lanes[nth], v_starts[nth]) as job
                    where job.run_at <= case when v_kind = 2 then v_now else least(v_now, v_job.run_at) end
                      and (v_kind = 2 or (job.run_at, job.id) < (v_job.run_at, v_job.id))
                      and job.id <> v_job.id
                      -- is_head_of_key() in one step: a call for each job would take too long.
                      and (job.key is null or job.id = (select head.id from treadle.key_head(job.key) as head))
                    limit v_room
                ) as found
                where v_kinds[nth] = v_kind
                limit v_room
            ) as counted
        );
        v_counts := v_counts || v_count;
        v_room := v_room - v_count;
    end loop;

    return query select v_counts[1], v_counts[2], v_counts[3];
end
$$;
