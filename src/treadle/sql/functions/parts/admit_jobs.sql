-- Of the jobs that claim_lanes() has locked, those that fit into the room of their limits, in the order of their time;
-- if the lanes take turns, in a random order that keeps their shares and the order within each. If one does not fit,
-- those behind it in its lane wait, too. A job that weighs more than its limit allows in all fits when nothing else
-- uses the limit.
create or replace function treadle.admit_jobs(
    p_now timestamptz,
    p_places tid[],
    p_names varchar[],
    p_keys varchar[],
    p_room int[],
    p_weighted boolean, -- jobs have weights
    p_fair boolean -- the lanes take turns
) returns tid[]
language plpgsql
set treadle.plan = callers
set enable_hashjoin = on -- for joins of lists
as $$
declare
    v_capacities int[];
    v_steps interval[];
    v_admitted tid[] := '{}';
    v_waiting text[] := '{}';
    v_job record;
    v_nth int;
    v_missing int;
    v_reached int; -- which limit
    v_opens_at timestamptz;
begin
    -- lock_limits() may count jobs that have ended, if there is room for as many jobs as wanted: that may be too little for
    -- a heavy one.
    select
        array_agg(
            case when p_weighted and used.room >= 0 then greatest(state.room, 0) else used.room end order by used.nth
        ),
        array_agg(state.capacity order by used.nth),
        array_agg(state.step order by used.nth)
    into p_room, v_capacities, v_steps
    from unnest(p_names, p_keys, p_room) with ordinality as used (name, key, room, nth)
    left join lateral treadle.limit_room(used.name, used.key, null, p_now) as state on true;

    for v_job in
        select
            job.ctid as place,
            coalesce(job.weight, 1) as weight,
            job.queue, job.job_type, job.priority, job.partition, job.run_at,
            job.queue || ' ' || job.job_type || ' ' || job.partition as lane,
            array(
                select used.nth
                from treadle.limits_of(job.queue, job.job_type, job.partition) as rule
                join unnest(p_names, p_keys) with ordinality as used (name, key, nth)
                    on used.name = rule.name and used.key = rule.key
            ) as limits
        from treadle.jobs as job
        where job.ctid = any (p_places)
        order by
            case
                when p_fair
                then (row_number() over (partition by job.queue, job.job_type, job.partition order by job.run_at, job.id) - random())
                    / count(*) over (partition by job.queue, job.job_type, job.partition)
            end,
            job.run_at,
            job.id
    loop
        continue when v_job.lane = any (v_waiting);

        v_reached := null;
        foreach v_nth in array v_job.limits loop
            v_missing := least(v_job.weight, v_capacities[v_nth]) - p_room[v_nth];
            if v_missing > 0 then
                v_reached := v_nth;
                v_opens_at := p_now + v_missing * v_steps[v_nth];
            end if;
        end loop;

        if v_reached is null then
            v_admitted := v_admitted || v_job.place;
            foreach v_nth in array v_job.limits loop
                p_room[v_nth] := p_room[v_nth] - v_job.weight;
            end loop;
            continue;
        end if;

        v_waiting := v_waiting || v_job.lane;
        -- Another claim has locked it: that is not a reason to wait for longer.
        if p_room[v_reached] >= 0 then
            perform treadle.wait_for_limits(
                p_now, array[row(v_job.queue, v_job.job_type, v_job.priority, v_job.partition)::treadle.lane],
                array[p_names[v_reached]], array[p_keys[v_reached]], array[v_opens_at]
            );
        end if;
    end loop;
    return v_admitted;
end
$$;
