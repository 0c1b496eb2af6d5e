create or replace function treadle.enqueue(
    p_job_type varchar,
    p_data jsonb default '{}',
    p_priority int default 100,
    p_queue varchar default 'default',
    p_run_at timestamptz default null,
    p_delay interval default null,
    p_key varchar default null,
    p_max_attempts int default 3
) returns uuid
language sql
as $$
    select treadle.enqueue_jobs(
        p_job_type,
        array[p_data::text],
        p_priority,
        p_queue,
        p_run_at,
        p_delay,
        array[p_key],
        p_max_attempts
    )
$$;

comment on function treadle.enqueue(varchar, jsonb, int, varchar, timestamptz, interval, varchar, int)
    is 'Enqueues one job and returns its id: select treadle.enqueue(''welcome'', ''{"user_id": 7}'').';
