-- What a worker that is gone still held. Those that were running when it went are counted as crashed, the others go back
-- to their place as if nothing had happened. Never waits for a row: a late write of the worker itself may hold it, and
-- what is left is found by the next look (see recover_lost_workers).
create or replace function treadle.recover_worker(
    p_worker_id varchar,
    p_reason text,
    p_crashed uuid[] default null,
    p_overdue uuid[] default '{}',
    p_crash_limit int default 3,
    p_keep boolean default true
) returns table (id uuid, job_type varchar, status varchar)
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_ids uuid[];
    v_types varchar[];
    v_leases bigint[];
    v_outcomes varchar[];
begin
    select
        array_agg(held.id),
        array_agg(held.job_type),
        array_agg(held.lease),
        array_agg(
            case
                when held.id = any (p_overdue) then 'retry'
                when held.id = any (p_crashed) or p_crashed is null and held.status = 'running' then 'crashed'
                else 'released'
            end
        )
    into v_ids, v_types, v_leases, v_outcomes
    from (
        select job.id, job.job_type, job.lease, job.status
        from treadle.jobs as job
        where job.worker_id = p_worker_id
          and job.status in ('claimed', 'running')
        order by job.id
        limit 5000
        for no key update skip locked
    ) as held;

    return query
    select settled.id, held.job_type, settled.status
    from treadle.settle_jobs(
        p_worker_id,
        v_ids,
        v_leases,
        v_outcomes,
        (
            select array_agg(case outcome when 'crashed' then p_reason when 'retry' then 'ran past its deadline and was killed' end)
            from unnest(v_outcomes) as outcome
        ),
        p_crash_limit => p_crash_limit
    ) as settled
    join unnest(v_ids, v_types) as held (id, job_type) on held.id = settled.id;

    if p_keep or exists (
        select
        from treadle.jobs as job
        where job.worker_id = p_worker_id
          and job.status in ('claimed', 'running')
    ) then
        update treadle.workers as worker
        set lost_at = coalesce(worker.lost_at, clock_timestamp())
        where worker.worker_id = p_worker_id;
    else
        delete from treadle.workers as worker
        where worker.worker_id = p_worker_id;
    end if;
end
$$;

comment on function treadle.recover_worker(varchar, text, uuid[], uuid[], int, boolean)
    is 'Gives back what a worker that is gone still held: p_crashed (null: those that ran) are counted as crashed, p_overdue as failed, the rest as nothing. Returns them with their new status.';
