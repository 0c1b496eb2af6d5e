create or replace function treadle.register_worker(
    p_worker_id varchar,
    p_lease interval,
    p_job_types varchar[],
    p_queues varchar[] default null,
    p_concurrency int default null,
    p_host text default null,
    p_pid int default null,
    p_version text default null,
    p_process_types varchar[] default null,
    p_children int default null
) returns void
language plpgsql
as $$
begin
    insert into treadle.workers (
        worker_id, lease, job_types, queues, concurrency, host, pid, version, process_types, children
    )
    values (
        p_worker_id, p_lease, p_job_types, p_queues, p_concurrency, p_host, p_pid, p_version, p_process_types, p_children
    )
    on conflict (worker_id) do update
    set seen_at = clock_timestamp(),
        lost_at = null,
        lease = excluded.lease,
        job_types = excluded.job_types,
        queues = excluded.queues,
        concurrency = excluded.concurrency,
        host = excluded.host,
        pid = excluded.pid,
        version = excluded.version,
        process_types = excluded.process_types,
        children = excluded.children;
end
$$;

comment on function treadle.register_worker(varchar, interval, varchar[], varchar[], int, text, int, text, varchar[], int)
    is 'Registers a worker. If it does not renew its lease within p_lease, other workers get its jobs.';
