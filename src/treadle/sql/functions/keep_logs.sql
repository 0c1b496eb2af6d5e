-- Writes what the handlers of a worker logged, as record_events does. Of each job the first p_head and the last p_tail
-- lines are kept. Returns the jobs that were accepted.
create or replace function treadle.keep_logs(
    p_worker_id varchar,
    p_ids uuid[],
    p_leases bigint[],
    p_owners int[],
    p_sequences int[],
    p_levels int[],
    p_loggers text[],
    p_messages text[],
    p_ages double precision[],
    p_head int,
    p_tail int
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
    insert into treadle.logs (job_id, number, attempt, lease, sequence, logged_at, level, logger, message)
    select
        job.id,
        coalesce(last.number, 0)
            -- Lines that were left out between those that are there and these count, too.
            + told.sequence - case when last.lease = job.lease then last.sequence else 0 end,
        job.attempts,
        job.lease,
        told.sequence,
        v_now - told.age * interval '1 second',
        told.level,
        told.logger,
        told.message
    from unnest(v_held) as held (id)
    join treadle.jobs as job on job.id = held.id
    left join lateral (
        select line.number, line.lease, line.sequence
        from treadle.logs as line
        where line.job_id = job.id
        order by line.number desc
        limit 1
    ) as last on true
    join unnest(p_owners, p_sequences, p_levels, p_loggers, p_messages, p_ages)
        as told (owner, sequence, level, logger, message, age)
        on p_ids[told.owner] = job.id
            and p_leases[told.owner] = job.lease
    where last.lease is distinct from job.lease
       or told.sequence > last.sequence;

    delete from treadle.logs as line
    using (
        select held.id, (
            select max(line.number)
            from treadle.logs as line
            where line.job_id = held.id
        ) as number
        from unnest(v_held) as held (id)
    ) as last
    where line.job_id = last.id
      and line.number > p_head
      and line.number <= last.number - p_tail;

    update treadle.jobs as job
    set keeps = job.keeps | 2::smallint
    where job.id = any (v_held)
      and job.keeps & 2 = 0;

    perform treadle.announce(v_held, 'news');
    return query select unnest(v_held);
end
$$;

comment on function treadle.keep_logs(varchar, uuid[], bigint[], int[], int[], int[], text[], text[], double precision[], int, int)
    is 'Writes the log lines of a worker''s jobs, fenced by their leases; keeps the first and the last of each; returns the jobs that were accepted.';
