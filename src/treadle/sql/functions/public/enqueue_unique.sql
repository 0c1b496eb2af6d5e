-- Enqueues a job unless there is an unfinished one of its type with the same unique key; then returns the id of that
-- one. If another transaction is just adding it, this call waits for that. enqueue_with_options() has more options.
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
as $$
declare
    v_options treadle.enqueue_options;
begin
    v_options.priority := p_priority;
    v_options.queue := p_queue;
    v_options.run_at := p_run_at;
    v_options.delay := p_delay;
    v_options.key := p_key;
    v_options.max_attempts := p_max_attempts;
    v_options.unique_keys := array[p_unique];
    return added.id
    from treadle.add_jobs(p_job_type, array[p_data::text], v_options) as added;
end
$$;
