-- Writes the events of a worker's handlers, of many jobs in one statement, each fenced by its lease number. p_owners
-- says to which of the jobs an event belongs. Returns the ids of the jobs that were accepted.
--
-- The jobs are locked first: an earlier write whose reply was lost may still be running, and what it wrote is skipped.
-- So the numbers of a job's events also grow in the order in which the events become visible.
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
set treadle.plan = cached_index_ranges
-- A row that another transaction keeps locked must not delay the worker's other writes.
set lock_timeout = '1s'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_claimed uuid[] := treadle.lock_claimed(p_worker_id, p_ids, p_leases);
begin
    with numbered as materialized (
        select
            job.id,
            job.job_type,
            job.attempts,
            job.lease,
            job.events_count + row_number() over (partition by job.id order by sent.sequence) as number,
            sent.sequence,
            sent.name,
            sent.data,
            sent.age,
            -- See record_event.sql.
            greatest(pg_current_xact_id(), before.transaction) as transaction
        from unnest(v_claimed) as claimed (id)
        join treadle.jobs as job on job.id = claimed.id
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
        join unnest(p_owners, p_sequences, p_names, p_data, p_ages) as sent (owner, sequence, name, data, age)
            on p_ids[sent.owner] = job.id
            and p_leases[sent.owner] = job.lease
        where sent.sequence > coalesce(last.sequence, 0)
    ),
    added as (
        insert into treadle.events (job_id, number, job_type, attempt, lease, sequence, happened_at, name, data, transaction)
        select
            numbered.id,
            numbered.number,
            numbered.job_type,
            numbered.attempts,
            numbered.lease,
            numbered.sequence,
            v_now - numbered.age * interval '1 second',
            numbered.name,
            numbered.data::jsonb,
            numbered.transaction
        from numbered
        order by numbered.id, numbered.number
        returning job_id, number, happened_at
    )
    update treadle.jobs as job
    set events_count = last.number,
        flags = job.flags | treadle.flag_events(),
        -- A job with an event has started, and a reader of its events finds that before them (see report_jobs.sql).
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

    perform treadle.announce(v_claimed, 'news');
    return query select unnest(v_claimed);
end
$$;
