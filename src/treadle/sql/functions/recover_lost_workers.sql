-- Gives back the jobs of workers that were silent for longer than their lease. Workers without a lease, that is holders
-- by hand, are left alone: see recover_stale_jobs.
create or replace function treadle.recover_lost_workers(
    p_crash_limit int default 3,
    p_now timestamptz default clock_timestamp()
) returns table (id uuid, job_type varchar, status varchar, worker_id varchar)
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_worker record;
begin
    -- One at a time; two would only get in each other's way.
    if not pg_try_advisory_xact_lock(hashtext('treadle recover'), hashoid('treadle.workers'::regclass)) then
        return;
    end if;

    for v_worker in
        select worker.worker_id, worker.seen_at, worker.lease, worker.lost_at, held.id is not null as holds
        from treadle.workers as worker
        left join lateral (
            select job.id
            from treadle.jobs as job
            where job.worker_id = worker.worker_id
              and job.status in ('claimed', 'running')
            limit 1
        ) as held on true
        where worker.lost_at is not null
           or worker.seen_at < p_now - worker.lease
        order by worker.worker_id
    loop
        if v_worker.holds then
            return query
            select recovered.id, recovered.job_type, recovered.status, v_worker.worker_id
            from treadle.recover_worker(
                v_worker.worker_id,
                format('worker %s gave no sign of life for %s', v_worker.worker_id, v_worker.lease),
                p_crash_limit => p_crash_limit
            ) as recovered;
        elsif v_worker.lost_at is null then
            update treadle.workers as worker
            set lost_at = clock_timestamp()
            where worker.worker_id = v_worker.worker_id;
        elsif v_worker.lost_at < p_now - interval '1 day' then
            delete from treadle.workers as worker
            where worker.worker_id = v_worker.worker_id;
        end if;
    end loop;
end
$$;

comment on function treadle.recover_lost_workers(int, timestamptz)
    is 'Gives back the jobs of workers that were silent for longer than their lease, and returns them; one call at a time.';
