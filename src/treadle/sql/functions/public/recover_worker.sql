-- Gives back the jobs that a dead worker had claimed: p_crashed count as crashed (null: those that were running count
-- as lost), p_overdue as failed attempts, the rest as neither. Those whose attempt must not be repeated fail. Returns the
-- jobs with their new status.
--
-- A supervisor knows which of them ran in the process that died. If nobody knows (null), the worker was lost as a whole
-- (decision 25). It never waits for a locked row: a late write of the worker itself may have locked it, and
-- recover_lost_workers() finds the job later.
create or replace function treadle.recover_worker(
    p_worker_id varchar,
    p_reason text,
    p_crashed uuid[] default null,
    p_overdue uuid[] default '{}',
    p_crash_limit int default 3,
    p_keep boolean default true
) returns table (id uuid, job_type varchar, status varchar)
language plpgsql
set enable_hashjoin = on -- for the join of the settled jobs with their types
as $$
#variable_conflict use_column
declare
    v_ids uuid[];
    v_types varchar[];
    v_leases bigint[];
    v_outcomes varchar[];
    v_errors text[];
    v_given_back int := 0;
    v_failed int := 0;
begin
    select
        array_agg(claimed.id),
        array_agg(claimed.job_type),
        array_agg(claimed.lease),
        array_agg(claimed.outcome),
        array_agg(
            case
                when claimed.outcome = 'failed' then treadle.describe_once(
                    case when claimed.id = any (p_overdue) then 'it ran past its deadline and was killed' else p_reason end
                )
                when claimed.outcome in ('crashed', 'lost') then p_reason
                when claimed.outcome = 'retry' then 'ran past its deadline and was killed'
            end
        )
    into v_ids, v_types, v_leases, v_outcomes, v_errors
    from (
        select
            job.id, job.job_type, job.lease,
            case
                when treadle.has_begun_once(job.status, job.flags) then 'failed'
                when job.id = any (p_overdue) then 'retry'
                when job.id = any (p_crashed) then 'crashed'
                when p_crashed is null and job.status = 'running' then 'lost'
                else 'released'
            end as outcome
        from treadle.jobs as job
        where job.worker_id = p_worker_id
          and job.status in ('claimed', 'running')
        order by job.id
        limit 5000
        for no key update skip locked
    ) as claimed;

    for id, job_type, status in
        select settled.id, claimed.job_type, settled.status
        from treadle.settle_jobs(
            p_worker_id, v_ids, v_leases, v_outcomes, v_errors, p_crash_limit => p_crash_limit
        ) as settled
        join unnest(v_ids, v_types) as claimed (id, job_type) on claimed.id = settled.id
    loop
        v_given_back := v_given_back + (status = 'pending')::int;
        v_failed := v_failed + (status = 'failed')::int;
        return next;
    end loop;

    if p_keep or exists (
        select
        from treadle.jobs as job
        where job.worker_id = p_worker_id
          and job.status in ('claimed', 'running')
    ) then
        update treadle.workers as worker
        set lost_at = coalesce(worker.lost_at, clock_timestamp()),
            lost_because = coalesce(worker.lost_because, left(p_reason, 500)),
            jobs_given_back = coalesce(worker.jobs_given_back, 0) + v_given_back,
            jobs_failed = coalesce(worker.jobs_failed, 0) + v_failed
        where worker.worker_id = p_worker_id;
    else
        delete from treadle.workers as worker
        where worker.worker_id = p_worker_id;
    end if;
end
$$;
