-- An event told by hand: by a holder (with its lease), or by anybody about a job.
create or replace function treadle.record_event(
    p_id uuid,
    p_name varchar,
    p_data jsonb default '{}',
    p_lease bigint default null,
    p_worker_id varchar default null
) returns boolean
language plpgsql
set enable_seqscan = off
as $$
begin
    -- First the lock: the event before this one must be seen by the next statement.
    perform from treadle.jobs as job where job.id = p_id for no key update;

    with job as (
        update treadle.jobs as job
        set events_count = job.events_count + 1,
            keeps = job.keeps | 1::smallint
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
        -- Not below that of the event before, whose transaction may have begun later: by this a job's events are in
        -- the order of their numbers. Nor below its own, so that who has read that far has seen it.
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

comment on function treadle.record_event(uuid, varchar, jsonb, bigint, varchar)
    is 'Adds an event to a job, numbered after those that it has. False: the lease is lost, or there is no such job.';
