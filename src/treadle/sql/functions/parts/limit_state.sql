-- How much of a limit is in use, and when the next job of weight p_weight may start: for find_limits() and treadle why.
-- With p_key null, only the values that hold for every key.
create or replace function treadle.limit_state(
    p_name varchar,
    p_key varchar,
    p_weight int,
    p_now timestamptz,
    out kind varchar,
    out amount int, -- in force for this key
    out period interval,
    out burst int,
    out in_use bigint, -- the weight of the jobs that run; null: it is a rate
    out running bigint, -- how many they are
    out available int, -- null: it is no rate
    out opens_at timestamptz, -- null: now, when a job ends, or never
    out frees_at timestamptz, -- an estimate, if it waits for a job to end
    out for_key boolean, -- the amount was set for this key
    out changed_by text,
    out changed_at timestamptz
)
language plpgsql stable
set treadle.plan = nested_loops
set jit = off
-- Planning for each list of jobs takes longer than the query.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    c_holders constant int := 10000;
    c_lanes constant int := 5;
    c_minutes constant int := 10;
    v_jobs uuid[];
    v_leases bigint[];
    v_weights int[];
    v_needed int;
begin
    select
        state.kind, state.amount, state.period, state.burst, state.for_key, state.changed_by, state.changed_at,
        least(p_weight, state.capacity), state.jobs, state.leases, state.weights,
        greatest(state.opens_at, state.full_at - (state.capacity - least(p_weight, state.capacity)) * state.step),
        case when state.kind = 'rate' and state.amount is not null then greatest(0, state.room) end
    into
        kind, amount, period, burst, for_key, changed_by, changed_at,
        v_needed, v_jobs, v_leases, v_weights,
        opens_at,
        available
    from treadle.limit_room(p_name, p_key, null, p_now) as state;
    if not found or p_key is null then
        available := null;
        return;
    end if;

    if available >= v_needed then
        opens_at := null;
    end if;
    if kind <> 'rate' then
        with held as materialized (
            select job.queue, job.job_type, job.started_at, newest.weight
            from (
                -- The newest are at the end.
                select listed.id, listed.lease, listed.weight
                from unnest(v_jobs, v_leases, v_weights) with ordinality as listed (id, lease, weight, nth)
                order by listed.nth desc
                limit c_holders
            ) as newest
            join treadle.jobs as job on job.id = newest.id and job.lease = newest.lease
            -- Written so that only the primary key matches: see complete_jobs.sql.
            where job.status <> 'pending'
              and job.finished_at is null
        ),
        used as materialized (
            select coalesce(sum(held.weight), 0)::bigint as weight, count(*) as jobs
            from held
        ),
        first as materialized (
            -- The job of each kind that has run for longest.
            select held.queue, held.job_type, min(held.started_at) as started_at
            from held
            where (select used.weight from used) + v_needed > amount
            group by held.queue, held.job_type
            order by min(held.started_at)
            limit c_lanes
        )
        select used.weight, used.jobs, estimate.frees_at
        into in_use, running, frees_at
        from used
        left join (
            select greatest(p_now, min(first.started_at + usual.seconds * interval '1 second')) as frees_at
            from first
            cross join lateral (
                select sum(minutes.ran) / nullif(sum(minutes.completed), 0) as seconds
                from generate_series(0, c_minutes) as ago (minutes)
                cross join lateral (
                    select counted.ran, counted.completed
                    from treadle.minutes as counted
                    where counted.minute = date_trunc('minute', p_now) - ago.minutes * interval '1 minute'
                      and counted.queue = first.queue
                      and counted.job_type = first.job_type
                    offset 0
                ) as minutes
            ) as usual
            where usual.seconds is not null
              and first.started_at is not null
            having count(*) > 0
        ) as estimate on true;
    end if;
end
$$;
