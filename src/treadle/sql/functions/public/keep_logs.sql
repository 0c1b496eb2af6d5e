-- Writes the log lines of a worker's jobs, fenced by their lease numbers. Of each job the first p_head and the last
-- p_tail lines are kept. Returns the ids of the jobs that were accepted.
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
set treadle.plan = cached_index_ranges
-- A row that another transaction keeps locked must not delay the worker's other writes.
set lock_timeout = '1s'
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_claimed uuid[] := treadle.lock_claimed(p_worker_id, p_ids, p_leases);
begin
    insert into treadle.logs (job_id, number, attempt, lease, sequence, logged_at, level, logger, message)
    select
        job.id,
        coalesce(last.number, 0)
            -- Lines that were left out between the existing ones and these are counted, too.
            + line.sequence - case when last.lease = job.lease then last.sequence else 0 end,
        job.attempts,
        job.lease,
        line.sequence,
        v_now - line.age * interval '1 second',
        line.level,
        line.logger,
        line.message
    from unnest(v_claimed) as claimed (id)
    join treadle.jobs as job on job.id = claimed.id
    left join lateral (
        select log.number, log.lease, log.sequence
        from treadle.logs as log
        where log.job_id = job.id
        order by log.number desc
        limit 1
    ) as last on true
    join unnest(p_owners, p_sequences, p_levels, p_loggers, p_messages, p_ages)
        as line (owner, sequence, level, logger, message, age)
        on p_ids[line.owner] = job.id
            and p_leases[line.owner] = job.lease
    where last.lease is distinct from job.lease
       or line.sequence > last.sequence;

    delete from treadle.logs as line
    using (
        select claimed.id, (
            select max(line.number)
            from treadle.logs as line
            where line.job_id = claimed.id
        ) as number
        from unnest(v_claimed) as claimed (id)
    ) as last
    where line.job_id = last.id
      and line.number > p_head
      and line.number <= last.number - p_tail;

    update treadle.jobs as job
    set flags = job.flags | treadle.flag_logs()
    where job.id = any (v_claimed)
      and job.flags & treadle.flag_logs() = 0;

    perform treadle.announce(v_claimed, 'news');
    return query select unnest(v_claimed);
end
$$;
