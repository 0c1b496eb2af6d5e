-- Claims jobs from lanes of one priority that may be limited, fair or aged, and returns their ids. A part of
-- claim_in_turns(), whose settings fix the plans. The steps are those of claim_jobs(): choose, lock, mark; under
-- limits, the room is asked for before the rows are locked (lock_limits), and what does not fit stays (admit_jobs).
--
-- p_running are transactions that were just running: see running_transactions(). The choice decides about the order and
-- needs a better guess: see recent_lockers().
create or replace function treadle.claim_lanes(
    p_worker_id varchar,
    p_now timestamptz,
    p_running xid[],
    p_wanted int,
    p_lanes treadle.lane_range[],
    p_limited boolean, -- there are limits
    p_fair varchar[] default null, -- the job types whose lanes take turns: see fair_shares()
    p_due timestamptz default null, -- only jobs that were due then
    p_wait boolean default false -- for limits that others have locked
) returns uuid[]
language plpgsql
set treadle.plan = callers
as $$
declare
    v_fair constant varchar[] := case
        when '' = any (p_fair) or exists (select from unnest(p_lanes) as range where (range.lane).job_type = any (p_fair)) then p_fair
    end;
    -- As in claim_jobs().
    c_dead constant int := 500;
    -- How often more jobs are read because those that were read had expired. (The next claim goes on.)
    c_expired constant int := 10;
    v_read constant bigint := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass);
    v_due constant timestamptz := coalesce(p_due, p_now);
    v_head int; -- how many jobs of each lane are read
    v_any boolean := cardinality(p_lanes) = 1 and not p_limited and v_fair is null; -- take the jobs of one lane after the other
    v_picked treadle.lane_range[] := p_lanes;
    v_shares int[] := array[p_wanted]; -- how many jobs of each
    v_granted int[]; -- and how many their limits allow
    v_done treadle.lane[]; -- those that have no more jobs, or not room enough: they are not read again
    v_lockers xid[];
    v_found int;
    v_places tid[];
    v_admitted tid[];
    v_picks int[]; -- which lane each is from
    v_keyed boolean;
    v_weighted boolean;
    v_limited int[]; -- which of the picked lanes has
    v_limits int[]; -- which of the limits
    v_names varchar[]; -- that were locked
    v_keys varchar[];
    v_room int[];
    v_enough boolean;
    v_claimed uuid[];
    v_expired int := 0;
    v_retries int := 2; -- if other claims are faster
    v_taken uuid[] := '{}';
begin
    if not v_any then
        v_lockers := treadle.recent_lockers();
    end if;

    -- Lanes whose limits no other claim seems to have locked: with eight claims at a time, each would otherwise read the same jobs. If
    -- there is none, lock_limits() may wait for them.
    if p_limited and cardinality(p_lanes) > 1 then
        v_picked := array(
            select range
            from unnest(p_lanes) as range
            where not exists (
                select
                from treadle.limits_of((range.lane).queue, (range.lane).job_type, (range.lane).partition) as rule
                cross join lateral (
                    select
                    from treadle.limit_keys as known
                    where known.name = rule.name
                      and known.key = rule.key
                      and known.xmax = any (v_lockers)
                    limit 1
                ) as locked
            )
        );
        if v_picked <> '{}' or not p_wait then
            p_lanes := v_picked;
        end if;
    end if;

    loop
        exit when p_lanes = '{}';

        -- Choose.
        if not v_any and v_fair is not null then
            select fair.picked, fair.shares
            into v_picked, v_shares
            from treadle.fair_shares(v_fair, p_lanes, v_due, p_wanted, v_lockers, p_limited) as fair;
        elsif not v_any then
            select oldest.picked, oldest.shares, oldest.jobs, oldest.per_lane
            into v_picked, v_shares, v_found, v_head
            from treadle.oldest_of_lanes(p_lanes, v_due, p_wanted, v_lockers) as oldest;
        end if;

        v_done := '{}';
        v_names := null;
        if p_limited and v_picked is not null then
            select locked.shares, locked.lanes, locked.limits, locked.names, locked.keys, locked.room, locked.enough
            into v_granted, v_limited, v_limits, v_names, v_keys, v_room, v_enough
            from treadle.lock_limits(
                p_now, array(select range.lane from unnest(v_picked) as range), p_wait and v_taken = '{}', v_shares
            ) as locked;
            v_done := array(
                select pick.lane
                from unnest(v_picked, v_shares, v_granted) as pick (lane, start, jobs, granted)
                where pick.granted < pick.jobs
            );
            v_shares := v_granted;
        end if;

        -- Lock.
        select array_agg(locked.place), array_agg(locked.nth), bool_or(locked.keyed), bool_or(locked.weighted)
        into v_places, v_picks, v_keyed, v_weighted
        from (
            select job.place, pick.nth, job.keyed, job.weighted
            from unnest(v_picked, v_shares) with ordinality as pick (lane, start, jobs, nth)
            cross join lateral (
                select job.ctid as place, job.key is not null as keyed, job.weight > 1 as weighted
                from treadle.jobs as job
                where treadle.is_in_lane(job.queue, job.job_type, job.priority, job.partition, pick.lane)
                  and job.run_at >= pick.start
                  and job.run_at <= v_due
                  and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
                  and not job.xmax = any (p_running)
                  and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                order by job.run_at
                limit pick.jobs
                for no key update skip locked
            ) as job
            limit p_wanted
        ) as locked;

        if v_fair is not null and coalesce(cardinality(v_places), 0) < p_wanted then
            v_done := v_done || array(
                select pick.lane
                from unnest(v_picked, v_shares) with ordinality as pick (lane, start, jobs, nth)
                where pick.jobs > coalesce(cardinality(array_positions(v_picks, pick.nth::int)), 0)
            );
        end if;

        v_admitted := v_places;
        if v_names is not null and v_places is not null and (v_weighted or not v_enough) then
            v_admitted := treadle.admit_jobs(p_now, v_places, v_names, v_keys, v_room, v_weighted, v_fair is not null);
            -- Another round must not take the jobs behind one that does not fit.
            if cardinality(v_admitted) < cardinality(v_places) then
                v_done := v_done || array(
                    select distinct row(job.queue, job.job_type, job.priority, job.partition)::treadle.lane
                    from treadle.jobs as job
                    where job.ctid = any (v_places)
                      and job.ctid <> all (v_admitted)
                );
            end if;
        end if;

        -- Mark.
        v_claimed := array(
            select job.id
            from treadle.mark_claimed(
                p_worker_id, p_now, v_admitted, v_keyed,
                case when v_names is not null then treadle.flag_limited() | treadle.flag_opening() else 0::smallint end
            ) as job
        );
        if v_names is not null then
            perform treadle.hold_slots(
                p_now, v_claimed, array(select range.lane from unnest(v_picked) as range),
                v_limited, v_limits, v_names, v_keys, v_room
            );
        end if;
        v_taken := v_taken || v_claimed;
        p_wanted := p_wanted - cardinality(v_claimed);

        -- And again, if more are wanted.
        if v_done <> '{}' then
            p_lanes := array(
                select range
                from unnest(p_lanes) as range
                where range.lane <> all (v_done)
            );
        end if;
        if cardinality(v_claimed) < cardinality(v_admitted) and not v_keyed and v_expired < c_expired then
            v_expired := v_expired + 1;
            continue;
        end if;
        exit when p_wanted = 0 or v_any;
        continue when v_done <> '{}';

        if cardinality(v_claimed) < v_found and v_retries > 0 then
            -- Other claims were faster: choose again.
            v_retries := v_retries - 1;
            v_lockers := treadle.recent_lockers();
        elsif cardinality(v_claimed) < v_found
            or v_taken = '{}' and pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) > v_read
        then
            -- Other claims were faster again, or all rows are locked: try each row that is left.
            v_any := true;
            v_picked := p_lanes;
            -- Under a limit, not all of one lane: that takes a count of the jobs that use it.
            v_shares := array_fill(case when p_limited then least(p_wanted, v_head) else p_wanted end, array[cardinality(p_lanes)]);
        else
            exit;
        end if;
    end loop;

    if pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass)
        > v_read + cardinality(p_lanes) * coalesce(v_head, 0) + 4 * (cardinality(v_taken) + p_wanted) + c_dead
    then
        perform treadle.raise_floors(p_now, p_running, p_lanes);
    end if;
    return v_taken;
end
$$;
