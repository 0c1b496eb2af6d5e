-- Registers a worker that starts, and gives back the jobs of an earlier one of this name, which the new one does not
-- know. If it does not renew its lease within p_lease, other workers get its jobs. The same process (host and pid) may
-- register again, and keeps its jobs.
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
    p_children int default null,
    p_handlers text[] default null
) returns void
language plpgsql
as $$
declare
    v_host text;
    v_pid int;
begin
    select worker.host, worker.pid
    into v_host, v_pid
    from treadle.workers as worker
    where worker.worker_id = p_worker_id
      and worker.lease is not null;
    if found and ((v_host, v_pid) = (p_host, p_pid)) is not true then
        -- A late write of the old worker may have locked some of them. Recovery locks jobs before workers, as
        -- everywhere.
        for v_try in 1 .. 10 loop
            perform treadle.recover_worker(p_worker_id, format('worker %s was started again', p_worker_id));
            exit when not exists (
                select
                from treadle.jobs as job
                where job.worker_id = p_worker_id
                  and job.status in ('claimed', 'running')
            );
            perform pg_sleep(0.05);
        end loop;
    end if;

    -- What an operator set was for the earlier one.
    delete from treadle.worker_concurrency as changed
    where changed.worker_id = p_worker_id;

    insert into treadle.workers (
        worker_id, lease, job_types, queues, concurrency, host, pid, version, process_types, children, handlers
    )
    values (
        p_worker_id, p_lease, p_job_types, p_queues, p_concurrency, p_host, p_pid, p_version, p_process_types,
        p_children, p_handlers
    )
    on conflict (worker_id) do update
    set seen_at = clock_timestamp(),
        lost_at = null,
        lost_because = null,
        jobs_given_back = null,
        jobs_failed = null,
        stuck_since = null,
        stuck_kind = null,
        stuck_job = null,
        stuck_job_type = null,
        stuck_stack = null,
        stopped_children = null,
        asleep_at = null,
        lease = excluded.lease,
        job_types = excluded.job_types,
        queues = excluded.queues,
        concurrency = excluded.concurrency,
        host = excluded.host,
        pid = excluded.pid,
        version = excluded.version,
        process_types = excluded.process_types,
        children = excluded.children,
        handlers = excluded.handlers;
end
$$;
