-- How many jobs go before this one on the live workers that serve it, if it were free to go now: in its own lane, in the
-- other lanes of its priority, and in those of higher priority; counted no further than one past p_limit in all.
--
-- They are looked for as a claim looks (see claim_jobs): one bounded range of idx_jobs_claimable per lane. What waits for
-- its key, is due later or paused is not in the way. Job types that a worker runs in child processes have places of their
-- own, so the one kind does not wait for the other.
create or replace function treadle.jobs_ahead(p_id uuid, p_limit int default 1000)
returns table (own bigint, level bigint, above bigint)
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_indexscan = on
set enable_nestloop = on
set jit = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_fresh constant boolean := treadle.tick_is_fresh();
    v_job record;
    v_queues varchar[];
    v_types varchar[];
    v_priorities int[];
    v_starts timestamptz[];
    v_kinds int[];
    v_kind int;
    v_room bigint := p_limit + 1;
    v_count bigint;
    v_counts bigint[] := '{}';
begin
    select job.id, job.queue, job.job_type, job.priority, job.run_at
    into v_job
    from treadle.jobs as job
    where job.id = p_id;
    if not found then
        return;
    end if;

    -- Most workers of a fleet are alike: what they take is spelled out once.
    with fleet as materialized (
        select distinct worker.queues, worker.together
        from treadle.serving_workers(v_job.queue, v_job.job_type, v_now) as worker
    ),
    served as materialized (
        select distinct fleet.queues, known.job_type
        from fleet
        cross join lateral unnest(fleet.together) as known (job_type)
    ),
    wanted as (
        select
            lane.queue,
            lane.job_type,
            lane.priority,
            max(case when v_fresh then lane.floor else lane.settled end) as start,
            case
                when lane.priority > v_job.priority then 2
                when (lane.queue, lane.job_type) <> (v_job.queue, v_job.job_type) then 1
                else 0
            end as kind
        from served
        join treadle.lanes as lane on lane.job_type = served.job_type
        where lane.priority >= v_job.priority
          and (served.queues is null or lane.queue = any (served.queues))
          and (
                (lane.queue, lane.job_type) = (v_job.queue, v_job.job_type)
                or not exists (
                    select
                    from treadle.pauses as pause
                    where pause.job_type in (lane.job_type, '')
                      and pause.queue in (lane.queue, '')
                )
              )
        group by lane.queue, lane.job_type, lane.priority
    )
    select
        array_agg(wanted.queue), array_agg(wanted.job_type), array_agg(wanted.priority), array_agg(wanted.start),
        array_agg(wanted.kind)
    into v_queues, v_types, v_priorities, v_starts, v_kinds
    from wanted;

    for v_kind in 0..2 loop
        v_count := (
            select count(*)
            from (
                select
                from unnest(v_queues, v_types, v_priorities, v_starts, v_kinds)
                    as lane (queue, job_type, priority, start, kind)
                cross join lateral (
                    select
                    from treadle.jobs as job
                    where job.queue = lane.queue
                      and job.job_type = lane.job_type
                      and job.priority = lane.priority
                      and job.run_at >= lane.start
                      and job.run_at <= case when v_kind = 2 then v_now else least(v_now, v_job.run_at) end
                      and (v_kind = 2 or (job.run_at, job.id) < (v_job.run_at, v_job.id))
                      and job.id <> v_job.id
                      and job.status = 'pending'
                      and job.holds = 0
                      and job.attempts < job.max_attempts
                      -- is_head, in one step: a call for each of them takes too long.
                      and (
                            job.key is null
                            or job.id = (
                                select other.id
                                from treadle.jobs as other
                                where other.key = job.key
                                  and other.status in ('pending', 'claimed', 'running')
                                order by case other.status when 'pending' then 1 + (other.holds & 1) else 0 end, other.id
                                limit 1
                            )
                          )
                    limit v_room
                ) as found
                where lane.kind = v_kind
                limit v_room
            ) as counted
        );
        v_counts := v_counts || v_count;
        v_room := v_room - v_count;
    end loop;

    return query select v_counts[1], v_counts[2], v_counts[3];
end
$$;

comment on function treadle.jobs_ahead(uuid, int)
    is 'How many jobs the live workers that serve this one would take before it: in its lane, in others of its priority, in those of higher; p_limit + 1 at most in all.';
