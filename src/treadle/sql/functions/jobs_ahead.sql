-- How many jobs go before this one on the live workers that serve it, if it were free to go now: in its own lane, in the
-- other lanes of its priority, and in those of higher priority; each counted no further than one past p_limit.
--
-- They are looked for as a claim looks (see claim_jobs): one bounded range of idx_jobs_claimable per lane. What waits for
-- its key, is due later or paused is not in the way. Job types that a worker runs in child processes have places of their
-- own, so the one kind does not wait for the other.
create or replace function treadle.jobs_ahead(p_id uuid, p_limit int default 10000)
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
    v_kind int;
    v_counts bigint[] := '{}';
begin
    select job.id, job.queue, job.job_type, job.priority, job.run_at
    into v_job
    from treadle.jobs as job
    where job.id = p_id;
    if not found then
        return;
    end if;

    for v_kind in 0..2 loop
        select
            array_agg(served.queue), array_agg(served.job_type), array_agg(served.priority), array_agg(served.start)
        into v_queues, v_types, v_priorities, v_starts
        from (
            select
                lane.queue,
                lane.job_type,
                lane.priority,
                max(case when v_fresh then lane.floor else lane.settled end) as start
            from treadle.lanes as lane
            where lane.priority >= v_job.priority
              and v_kind = case
                    when lane.priority > v_job.priority then 2
                    when (lane.queue, lane.job_type) <> (v_job.queue, v_job.job_type) then 1
                    else 0
                  end
              and (
                    (lane.queue, lane.job_type) = (v_job.queue, v_job.job_type)
                    or not exists (
                        select
                        from treadle.pauses as pause
                        where pause.job_type in (lane.job_type, '')
                          and pause.queue in (lane.queue, '')
                    )
                  )
              and exists (
                    select
                    from treadle.serving_workers(v_job.queue, v_job.job_type, v_now) as worker
                    where lane.job_type = any (worker.together)
                      and (worker.queues is null or lane.queue = any (worker.queues))
                  )
            group by lane.queue, lane.job_type, lane.priority
        ) as served;

        v_counts := v_counts || (
            select count(*)
            from (
                select
                from unnest(v_queues, v_types, v_priorities, v_starts) as lane (queue, job_type, priority, start)
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
                      -- is_head, written out: a call for each of ten thousand takes too long.
                      and (
                            job.key is null
                            or not exists (
                                select
                                from treadle.jobs as other
                                where other.key = job.key
                                  and other.status in ('pending', 'claimed', 'running')
                                  and case other.status when 'pending' then 1 + (other.holds & 1) else 0 end = 0
                            )
                            and not exists (
                                select
                                from treadle.jobs as other
                                where other.key = job.key
                                  and other.status in ('pending', 'claimed', 'running')
                                  and case other.status when 'pending' then 1 + (other.holds & 1) else 0 end = 1
                                  and other.id < job.id
                            )
                          )
                    limit p_limit + 1
                ) as found
                limit p_limit + 1
            ) as counted
        );
    end loop;

    return query select v_counts[1], v_counts[2], v_counts[3];
end
$$;

comment on function treadle.jobs_ahead(uuid, int)
    is 'How many jobs the live workers that serve this one would take before it: in its lane, in others of its priority, in those of higher; each at most p_limit + 1.';
