-- Of the jobs that claim_lanes() has locked, those that fit into the room of their limits, in the order of their time; if the
-- lanes take turns, in a random order that keeps their shares and the order within each. If one does not fit, those behind it
-- in its lane wait, too. A job that weighs more than its limit allows in all fits when nothing else uses the limit.
create or replace function treadle.admit_jobs(
    p_now timestamptz,
    p_places tid[],
    p_names varchar[],
    p_keys varchar[],
    p_room int[],
    p_fair boolean -- the lanes take turns
) returns tid[]
language plpgsql
set enable_hashjoin = on -- for joins of lists
as $$
declare
    v_admitted tid[] := '{}';
    v_waiting text[] := '{}';
    v_job record;
    v_limit record;
    v_reached record;
begin
    -- lock_limits() may count jobs that have ended, if there is room for as many jobs as wanted: that may be too little for
    -- a heavy one.
    if exists (select from treadle.jobs as job where job.ctid = any (p_places) and job.weight > 1) then
        p_room := array(
            select
                case
                    when rule.period is not null or used.room < 0 or limited.amount is null then used.room
                    else limited.amount - (
                        select coalesce(sum(held.weight), 0)
                        from treadle.slots_in_use(state.jobs, state.leases, state.weights) as held
                    )
                end
            from unnest(p_names, p_keys, p_room) with ordinality as used (name, key, room, nth)
            join treadle.limits as rule on rule.name = used.name
            left join treadle.limit_keys as own on own.name = used.name and own.key = used.key
            cross join lateral (select coalesce(own.amount, rule.amount) as amount) as limited
            left join lateral (
                select holders.jobs, holders.leases, holders.weights
                from treadle.limit_holders as holders
                where holders.name = used.name
                  and holders.key = used.key
                order by holders.version desc
                limit 1
            ) as state on true
            order by used.nth
        );
    end if;

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
        for v_limit in
            select
                rule.name,
                used.nth,
                least(v_job.weight, case when rule.period is null then own.amount else coalesce(rule.burst, own.amount) end)
                    - p_room[used.nth] as missing,
                rule.period / own.amount as each
            from unnest(v_job.limits) as used (nth)
            join treadle.limits as rule on rule.name = p_names[used.nth]
            left join treadle.limit_keys as known on known.name = p_names[used.nth] and known.key = p_keys[used.nth]
            cross join lateral (select nullif(coalesce(known.amount, rule.amount), 0) as amount) as own
        loop
            if v_limit.missing > 0 then
                v_reached := v_limit;
            end if;
        end loop;

        if v_reached is null then
            v_admitted := v_admitted || v_job.place;
            for v_nth in 1 .. cardinality(v_job.limits) loop
                p_room[v_job.limits[v_nth]] := p_room[v_job.limits[v_nth]] - v_job.weight;
            end loop;
            continue;
        end if;

        v_waiting := v_waiting || v_job.lane;
        -- Another claim has locked it: that is not a reason to wait for longer.
        if p_room[v_reached.nth] >= 0 then
            perform treadle.park_lanes(
                p_now, array[row(v_job.queue, v_job.job_type, v_job.priority, v_job.partition)::treadle.lane],
                array[p_names[v_reached.nth]], array[p_keys[v_reached.nth]], array[p_now + v_reached.missing * v_reached.each]
            );
        end if;
    end loop;
    return v_admitted;
end
$$;

comment on function treadle.admit_jobs(timestamptz, tid[], varchar[], varchar[], int[], boolean)
    is 'Those of the jobs at p_places that fit into the room of their limits.';
