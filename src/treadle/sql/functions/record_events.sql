-- Writes what the handlers of a worker told, many jobs' in one statement, each fenced by its lease. p_owners says which
-- of the jobs an event is of. Returns the jobs that were accepted.
--
-- The jobs are locked first. A write whose answer was lost may still be under way: what it has written must be seen by
-- the next statement, which leaves out whatever of the lease is there already. The lock is also what makes the numbers
-- of a job's events grow in the order in which they can be seen.
create or replace function treadle.record_events(
    p_worker_id varchar,
    p_ids uuid[],
    p_leases bigint[],
    p_owners int[],
    p_sequences int[],
    p_names varchar[],
    p_data text[],
    p_ages double precision[]
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
    v_held uuid[] := treadle.lock_held(p_worker_id, p_ids, p_leases);
begin
    with told as materialized (
        select
            job.id,
            job.job_type,
            job.attempts,
            job.lease,
            job.events_count + row_number() over (partition by job.id order by told.sequence) as number,
            told.sequence,
            told.name,
            told.data,
            told.age,
            -- See record_event.
            greatest(pg_current_xact_id(), before.transaction) as transaction
        from unnest(v_held) as held (id)
        join treadle.jobs as job on job.id = held.id
        left join treadle.events as before on before.job_id = job.id and before.number = job.events_count
        left join lateral (
            select event.sequence
            from treadle.events as event
            where event.job_id = job.id
              and event.lease = job.lease
              and event.sequence is not null
            order by event.number desc
            limit 1
        ) as last on true
        join unnest(p_owners, p_sequences, p_names, p_data, p_ages) as told (owner, sequence, name, data, age)
            on p_ids[told.owner] = job.id
            and p_leases[told.owner] = job.lease
        where told.sequence > coalesce(last.sequence, 0)
    ),
    added as (
        insert into treadle.events (job_id, number, job_type, attempt, lease, sequence, happened_at, name, data, transaction)
        select
            told.id,
            told.number,
            told.job_type,
            told.attempts,
            told.lease,
            told.sequence,
            v_now - told.age * interval '1 second',
            told.name,
            told.data::jsonb,
            told.transaction
        from told
        order by told.id, told.number
        returning job_id, number, happened_at
    )
    update treadle.jobs as job
    set events_count = last.number,
        keeps = job.keeps | 1::smallint,
        -- Who tells something has begun: whoever reads the events finds that before them. (See start_jobs.)
        status = 'running',
        started_at = coalesce(job.started_at, last.began),
        progress = case job.status when 'running' then job.progress else 0 end,
        current_stage = case job.status when 'running' then job.current_stage end,
        pace = case job.status when 'running' then job.pace end
    from (
        select added.job_id, max(added.number) as number, min(added.happened_at) as began
        from added
        group by added.job_id
    ) as last
    where job.id = last.job_id;

    perform treadle.announce(v_held, 'news');
    return query select unnest(v_held);
end
$$;

comment on function treadle.record_events(varchar, uuid[], bigint[], int[], int[], varchar[], text[], double precision[])
    is 'Writes the events that the handlers of a worker told, fenced by their leases; returns the jobs that were accepted.';
