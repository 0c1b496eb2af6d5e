-- Enqueues one job per element of p_data (JSON texts) and returns their ids in that order; none if max_pending is
-- reached.
create or replace function treadle.enqueue_jobs(
    p_job_type varchar,
    p_data text[],
    p_priority int default 100,
    p_queue varchar default 'default',
    p_run_at timestamptz default null,
    p_delay interval default null,
    p_keys varchar[] default null,
    p_max_attempts int default 3,
    p_partitions text[] default null,
    p_headers jsonb default null -- of each of them
) returns setof uuid
language plpgsql
as $$
declare
    v_partitions constant varchar[] := treadle.partitions_of(p_job_type, p_queue, p_data, p_partitions);
    v_job treadle.jobs;
begin
    perform treadle.check_job(p_max_attempts, p_headers);
    if v_partitions is not null and not treadle.make_room(p_job_type, p_queue, p_priority, v_partitions) then
        return;
    end if;

    -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
    perform pg_current_xact_id();
    v_job.created_at := clock_timestamp();
    v_job.run_at := greatest(coalesce(p_run_at, v_job.created_at + p_delay), v_job.created_at);
    v_job.job_type := p_job_type;
    v_job.priority := p_priority;
    v_job.queue := p_queue;
    v_job.max_attempts := p_max_attempts;
    v_job.headers := p_headers;
    return query
    select added.id
    from treadle.insert_jobs(v_job, p_data, p_keys, v_partitions) as added;
end
$$;
