-- Gives back the jobs of workers whose lease has expired, and returns them. One call at a time does the work. Workers
-- without a lease, which send heartbeats by hand, are left to recover_stale_jobs().
--
-- p_watched: for how long the caller has watched the server's clock, and there was no jump (see server_clock.py). In
-- half of its lease a live worker has renewed it. Without such a caller, a clock that is set forward takes all workers
-- for lost, unless another worker has noted the jump.
create or replace function treadle.recover_lost_workers(
    p_crash_limit int default 3,
    p_now timestamptz default clock_timestamp(),
    p_watched interval default null
) returns table (id uuid, job_type varchar, status varchar, worker_id varchar)
language plpgsql
set treadle.plan = nested_loops
as $$
#variable_conflict use_column
declare
    c_wait constant interval := '2 seconds';
    v_worker record;
begin
    -- One call at a time: two would only delay each other. But if a worker has been lost for some time, then whoever
    -- has the lock does not do it: any role can take it, or leave the transaction of a call open.
    if not pg_try_advisory_xact_lock(hashtext('treadle recover'), hashoid('treadle.workers'::regclass))
        and not exists (
            select
            from treadle.workers as worker
            where worker.lost_at is null
              and worker.seen_at < treadle.clock_before(worker.lease, p_now) - c_wait
        )
    then
        return;
    end if;

    -- The clock was set back, and nobody knows for how long these were not seen: their leases begin now.
    update treadle.workers as worker
    set seen_at = p_now
    where worker.worker_id = any (array(
            select ahead.worker_id
            from treadle.workers as ahead
            where ahead.seen_at > p_now + interval '1 second'
            for no key update skip locked
          ));
    if found then
        return;
    end if;

    for v_worker in
        select worker.worker_id, worker.seen_at, worker.lease, worker.lost_at, claimed.id is not null as has_jobs
        from treadle.workers as worker
        left join lateral (
            select job.id
            from treadle.jobs as job
            where job.worker_id = worker.worker_id
              and job.status in ('claimed', 'running')
            limit 1
        ) as claimed on true
        where worker.lost_at is not null
           or worker.seen_at < treadle.clock_before(worker.lease, p_now)
          -- One that sleeps renews its long lease seldom, and has no jobs.
          and coalesce(p_watched >= worker.lease / 2 or worker.asleep_at is not null, true)
        order by worker.worker_id
        for no key update of worker skip locked
    loop
        if v_worker.has_jobs then
            return query
            select recovered.id, recovered.job_type, recovered.status, v_worker.worker_id
            from treadle.recover_worker(
                v_worker.worker_id,
                format('worker %s did not renew its lease within %s', v_worker.worker_id, v_worker.lease),
                p_crash_limit => p_crash_limit
            ) as recovered;
        elsif v_worker.lost_at is null then
            update treadle.workers as worker
            set lost_at = clock_timestamp(),
                lost_because = format('it did not renew its lease within %s', v_worker.lease),
                jobs_given_back = 0,
                jobs_failed = 0
            where worker.worker_id = v_worker.worker_id;
        elsif v_worker.lost_at < p_now - interval '1 day' then
            delete from treadle.workers as worker
            where worker.worker_id = v_worker.worker_id;
        end if;
    end loop;
end
$$;
