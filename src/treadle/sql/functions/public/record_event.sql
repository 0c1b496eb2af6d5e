-- Adds an event to a job, with the next number: from its worker (with the lease number), or from any session (without).
-- Returns false if the claim is lost or there is no such job.
create or replace function treadle.record_event(
    p_id uuid,
    p_name varchar,
    p_data jsonb default '{}',
    p_lease bigint default null,
    p_worker_id varchar default null
) returns boolean
language plpgsql
as $$
begin
    -- First the lock: the next statement must see the event before this one.
    perform from treadle.jobs as job where job.id = p_id for no key update;

    with job as (
        update treadle.jobs as job
        set events_count = job.events_count + 1,
            flags = job.flags | treadle.flag_events()
        where job.id = p_id
          and (p_lease is null or job.lease = p_lease and job.status in ('claimed', 'running'))
          and (p_worker_id is null or job.worker_id = p_worker_id)
        returning job.*
    )
    insert into treadle.events (job_id, number, job_type, attempt, lease, phase, happened_at, name, data, transaction)
    select
        job.id,
        job.events_count,
        job.job_type,
        job.attempts,
        job.lease,
        case when job.status in ('claimed', 'running') then 3 else 5 end,
        clock_timestamp(),
        p_name,
        p_data,
        -- Not lower than that of the previous event, whose transaction may have begun later, so that the order by
        -- transaction is the order of the numbers. Nor lower than its own, so that no reader has passed it already.
        greatest(pg_current_xact_id(), (
            select event.transaction
            from treadle.events as event
            where event.job_id = job.id
              and event.number = job.events_count - 1
        ))
    from job;
    if not found then
        return false;
    end if;

    perform treadle.announce(array[p_id], 'news');
    return true;
end
$$;
