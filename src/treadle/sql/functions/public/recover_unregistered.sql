-- Gives back the jobs of clients that are not registered as workers, if there was no sign of them for p_timeout:
-- neither the claim itself, nor a start, nor progress. Such a client may still be working, so the time is long;
-- recover_stale_jobs() is for whoever knows a shorter one. It also finds the jobs of a worker whose row is missing
-- after a restore. Workers call it once a minute.
--
-- It reads the index of claimed jobs only between the names of registered workers: their entries are the many.
create or replace function treadle.recover_unregistered(
    p_timeout interval default '1 day',
    p_crash_limit int default 3,
    p_now timestamptz default clock_timestamp()
) returns table (id uuid, job_type varchar, status varchar, worker_id varchar)
language plpgsql
set treadle.plan = nested_loops
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    v_before constant timestamptz := treadle.clock_before(p_timeout, p_now);
    v_client record;
begin
    -- One call at a time: two would only delay each other.
    if not pg_try_advisory_xact_lock(hashtext('treadle recover'), hashoid('treadle.workers'::regclass)) then
        return;
    end if;

    for v_client in
        with gap as materialized (
            select worker.worker_id as after, lead(worker.worker_id) over (order by worker.worker_id) as before
            from (
                select worker.worker_id from treadle.workers as worker
                union all
                select ''
            ) as worker
        ),
        silent as materialized (
            select job.id
            from gap
            cross join lateral (
                select job.id, job.claimed_at, job.started_at, job.seen_at
                from treadle.jobs as job
                where job.status in ('claimed', 'running')
                  and job.worker_id > gap.after
                  and job.worker_id < gap.before
                union all
                -- Behind the last worker. One condition for both would not be a range of the index.
                select job.id, job.claimed_at, job.started_at, job.seen_at
                from treadle.jobs as job
                where gap.before is null
                  and job.status in ('claimed', 'running')
                  and job.worker_id > gap.after
            ) as job
            where greatest(job.claimed_at, job.started_at, job.seen_at) < v_before
            limit 1000
        ),
        locked as (
            select job.id, job.worker_id, job.lease, job.job_type, case
                    when treadle.has_begun_once(job.status, job.flags) then 'failed'
                    when job.status = 'running' then 'lost'
                    else 'released'
                end as outcome
            from silent
            join treadle.jobs as job on job.id = silent.id
            where job.status in ('claimed', 'running')
              and greatest(job.claimed_at, job.started_at, job.seen_at) < v_before
            order by job.id
            for no key update of job skip locked
        )
        select
            locked.worker_id,
            array_agg(locked.id) as ids,
            array_agg(locked.lease) as leases,
            array_agg(locked.job_type) as types,
            array_agg(locked.outcome)::varchar[] as outcomes,
            array_agg(
                case locked.outcome
                    when 'failed' then treadle.describe_once(reason.text)
                    when 'lost' then reason.text
                end
            ) as errors
        from locked
        cross join lateral format(
            'client %s gave no sign for %s, and is not registered', locked.worker_id, p_timeout
        ) as reason (text)
        group by locked.worker_id
        order by locked.worker_id
    loop
        return query
        select settled.id, client.job_type, settled.status, v_client.worker_id
        from treadle.settle_jobs(
            v_client.worker_id, v_client.ids, v_client.leases, v_client.outcomes, v_client.errors,
            p_crash_limit => p_crash_limit
        ) as settled
        join unnest(v_client.ids, v_client.types) as client (id, job_type) on client.id = settled.id;
    end loop;
end
$$;
