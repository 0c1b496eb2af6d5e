-- What a worker says of its running jobs, all in one statement: that they run, and how far they are. Returns the ids
-- that were accepted; the others are no longer held under that lease.
create or replace function treadle.start_jobs(
    p_worker_id varchar,
    p_ids uuid[],
    p_leases bigint[],
    p_seconds double precision[],
    p_progress int[] default null,
    p_stages varchar[] default null,
    p_paces text[] default null
) returns setof uuid
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_indexscan = on
set enable_nestloop = on
set jit = off
set plan_cache_mode = force_generic_plan
-- A row that somebody holds for long must not hold up what the worker has to write besides.
set lock_timeout = '1s'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    return query
    with told as materialized (
        select told.id, told.lease, told.seconds, told.progress, told.stage, told.pace::jsonb as pace
        from unnest(p_ids, p_leases, p_seconds, p_progress, p_stages, p_paces)
            as told (id, lease, seconds, progress, stage, pace)
        order by told.id
    )
    update treadle.jobs as job
    set status = 'running',
        started_at = coalesce(job.started_at, v_now - told.seconds * interval '1 second'),
        -- The first word of an attempt wipes out what the last one said.
        progress = coalesce(told.progress, case job.status when 'running' then job.progress else 0 end),
        current_stage = coalesce(told.stage, case job.status when 'running' then job.current_stage end),
        pace = coalesce(told.pace, case job.status when 'running' then job.pace end)
    from told
    where job.id = told.id
      and job.lease = told.lease
      and job.worker_id is not distinct from p_worker_id
      and job.status <> 'pending'
      and job.finished_at is null
    returning job.id;

    perform treadle.announce(p_ids, 'news');
end
$$;

comment on function treadle.start_jobs(varchar, uuid[], bigint[], double precision[], int[], varchar[], text[])
    is 'Claimed jobs run, since so many seconds, with this progress, stage and pace (null: as before); returns the ids that were accepted.';
