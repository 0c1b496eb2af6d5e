-- Enqueues a job unless there is an unfinished one of its type with the same unique key; then returns the id of that one.
-- If another transaction is just adding it, this call waits until that transaction ends.
--
-- Runs with the rights of its owner: a role that may only enqueue cannot read unique keys, which are data of the user.
create or replace function treadle.enqueue_unique(
    p_job_type varchar,
    p_unique varchar,
    p_data jsonb default '{}',
    p_priority int default 100,
    p_queue varchar default 'default',
    p_run_at timestamptz default null,
    p_delay interval default null,
    p_key varchar default null,
    p_max_attempts int default 3
) returns uuid
language plpgsql
security definer
set enable_seqscan = off
as $$
declare
    v_now timestamptz;
    v_id uuid;
begin
    if p_max_attempts < 1 then
        raise exception 'p_max_attempts must be 1 or more, got %', p_max_attempts
            using errcode = 'invalid_parameter_value';
    end if;

    loop
        -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
        perform pg_current_xact_id();
        v_now := clock_timestamp();

        insert into treadle.jobs (job_type, unique_key, priority, data, created_at, queue, run_at, key, max_attempts)
        values (
            p_job_type,
            p_unique,
            p_priority,
            p_data,
            v_now,
            p_queue,
            greatest(coalesce(p_run_at, v_now + p_delay, v_now), v_now),
            p_key,
            p_max_attempts
        )
        on conflict (unique_key, job_type)
            where unique_key is not null and status in ('pending', 'claimed', 'running')
            do nothing
        returning id into v_id;
        exit when found;

        select job.id
        into v_id
        from treadle.jobs as job
        where job.unique_key = p_unique
          and job.job_type = p_job_type
          and job.status in ('pending', 'claimed', 'running');
        -- If none is found, the other job has just finished: try again.
        exit when found;
    end loop;

    return v_id;
end
$$;

comment on function treadle.enqueue_unique(varchar, varchar, jsonb, int, varchar, timestamptz, interval, varchar, int)
    is 'Enqueues one job, unless there is an unfinished one of its type with the same p_unique; then returns the id of that one.';

revoke all on function treadle.enqueue_unique(varchar, varchar, jsonb, int, varchar, timestamptz, interval, varchar, int) from public;
