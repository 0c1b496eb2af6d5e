-- The events of a job after a position, in order, with the transitions of the job among them. Transitions are derived
-- from the other tables; no row is written for them.
--
-- A position is the last transition that was read, as a lease number and a phase, and the number of the last event.
-- Everything later has a higher position. The phases:
--
--   0 enqueued (of lease number 0)   1 claimed   2 started   3 events while it is claimed   4 the attempt failed
--   5 events recorded while it is not claimed                6 the job finished
--
-- A claim that was given back without an error (a snooze, a deployment) has no transition.
create or replace function treadle.job_events(
    p_id uuid,
    p_number int default 0,
    p_lease bigint default null,
    p_phase int default null,
    p_limit int default 1000
) returns table (
    lease bigint, phase int, number int, job_type varchar, name varchar, data jsonb, at timestamptz, attempt int
)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    if p_lease is null then
        -- The position is an event: continue with the transitions after it.
        select event.lease, event.phase
        into p_lease, p_phase
        from treadle.events as event
        where event.job_id = p_id
          and event.number <= p_number
        order by event.number desc
        limit 1;
        p_lease := coalesce(p_lease, -1);
    end if;

    return query
    with job as materialized (
        select
            job.id, job.job_type, job.status, job.lease, coalesce(job.attempts, 0) as attempts, job.worker_id,
            coalesce(job.created_at, job.run_at) as created_at, job.claimed_at,
            job.started_at, job.finished_at, job.last_error, job.flags
        from treadle.jobs as job
        where job.id = p_id
    ),
    error as materialized (
        select error.lease, error.attempt, error.worker_id, error.started_at, error.failed_at, error.error
        from treadle.errors as error
        where error.job_id = p_id
          and error.lease >= p_lease
    ),
    line as (
        select 0::bigint as lease, 0 as phase, 0 as number, 'enqueued' as name, '{}'::jsonb as data,
            job.created_at as at, 0 as attempt
        from job
        union all
        select job.lease, 1, 0, 'claimed', jsonb_build_object('worker', job.worker_id), job.claimed_at, job.attempts
        from job
        where job.claimed_at is not null
        union all
        select job.lease, 2, 0, 'started', jsonb_build_object('worker', job.worker_id), job.started_at, job.attempts
        from job
        where job.started_at is not null
          and job.worker_id is not null
        union all
        select error.lease, 2, 0, 'started', jsonb_build_object('worker', error.worker_id), error.started_at,
            error.attempt
        from error
        where error.started_at is not null
        union all
        (
            select event.lease, event.phase, event.number, event.name, event.data, event.happened_at, event.attempt
            from treadle.events as event, job
            where event.job_id = p_id
              and job.flags & treadle.flag_events() <> 0
              and event.number > p_number
            order by event.number
            limit p_limit
        )
        union all
        select error.lease, 4, 0, 'retried', jsonb_build_object('worker', error.worker_id, 'error', error.error),
            error.failed_at, error.attempt
        from error, job
        where error.lease <> job.lease
           or job.status <> 'failed'
        union all
        select
            job.lease, 6, 0, job.status,
            case when job.status <> 'completed' then jsonb_build_object('error', job.last_error) else '{}' end,
            job.finished_at, job.attempts
        from job
        where job.finished_at is not null
    )
    select line.lease, line.phase::int, line.number, job.job_type, line.name::varchar, line.data, line.at, line.attempt
    from line, job
    where line.number > 0
       or (line.lease, line.phase) > (p_lease, coalesce(p_phase, 0))
    order by line.lease, line.phase, line.number
    limit p_limit;
end
$$;
