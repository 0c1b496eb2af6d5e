-- The claim of lanes that are limited, fair or aged, or too many to be read at once; also of whatever an ordinary claim
-- (claim_jobs) may have missed. Returns the ids of the jobs.
--
-- Usually all lanes of the job types are read at once, and with them those whose limit may have room (lanes_with_room).
-- If there are more (find_known_lanes), lanes_in_turn() returns v_few of one priority, then c_lanes at a time: the
-- lanes take turns, and the oldest job of those is claimed first. If they have no jobs, they become dormant at once, so
-- that the next claim does not search them again.
create or replace function treadle.claim_in_turns(
    p_worker_id varchar,
    p_job_types varchar[],
    p_wanted int,
    p_queues varchar[]
) returns uuid[]
language plpgsql
set treadle.plan = cached_index_ranges
as $$
declare
    c_lanes constant int := 100;
    -- A claim takes several jobs of few of them, which costs less than one job of each; but not too many under a limit.
    v_few constant int := least(c_lanes, greatest(12, p_wanted / 10));
    -- Of lanes that ran empty, a claim makes so many dormant; the tick and the next claims see to the others.
    c_emptied constant int := 1000;
    c_dead constant int := 500; -- as in claim_jobs()
    v_read bigint;
    v_now constant timestamptz := clock_timestamp();
    v_running xid[] := treadle.running_transactions();
    v_safe treadle.ticks; -- for safe_floor(); null: every floor can be trusted
    v_lanes treadle.lane_range[]; -- that are read one priority after the other
    v_turns boolean; -- the active lanes are not among them
    v_limits constant boolean := exists (select from treadle.limits as rule where rule.kind <> 'pending');
    v_fair varchar[];
    v_aging_share int;
    v_aged_since timestamptz;
    v_aged treadle.lane_range[];
    v_first int; -- of the same priority
    v_last int;
    v_next record;
    v_with_jobs treadle.lane_range[];
    v_emptied int := 0;
    v_ids uuid[];
    v_claimed uuid[] := '{}';
begin
    -- First of all: whoever adds a limit sees the lock that this takes. See list_running_jobs.sql.
    if not treadle.tick_is_fresh() then
        v_safe := treadle.prepare_lanes(p_job_types);
    end if;
    if v_safe.xid is null then
        v_lanes := (treadle.find_known_lanes(p_job_types, p_queues)).lanes;
    end if;

    select array_agg(setting.job_type) filter (where setting.fair_by is not null), v_now - max(setting.aging_after), max(setting.aging_share)
    into v_fair, v_aged_since, v_aging_share
    from treadle.type_settings as setting;
    if v_safe.xid is null and random() * 100 < v_aging_share then
        v_aged := treadle.aged_lanes(p_job_types, p_queues, v_aged_since, v_lanes);
        if v_aged <> '{}' then
            v_claimed := treadle.claim_lanes(p_worker_id, v_now, v_running, p_wanted, v_aged, v_limits, v_fair, v_aged_since);
        end if;
    end if;

    v_turns := v_lanes is null;
    if v_limits then
        v_lanes := array(
            select range
            from unnest(v_lanes || treadle.lanes_with_room(p_job_types, p_queues, v_now)) as range
            order by (range.lane).priority desc
        );
    end if;

    loop
        v_first := 1;
        v_next := treadle.lanes_in_turn(
            case when v_turns then p_job_types else '{}' end, p_queues, v_safe, v_few, null, null, null, null, null
        );
        while cardinality(v_claimed) < p_wanted loop
            if v_first <= cardinality(v_lanes)
                and (v_next.lanes is null or ((v_lanes[v_first]).lane).priority >= v_next.level)
            then
                v_last := v_first;
                while ((v_lanes[v_last + 1]).lane).priority = ((v_lanes[v_first]).lane).priority loop
                    v_last := v_last + 1;
                end loop;
                v_claimed := v_claimed || treadle.claim_lanes(
                    p_worker_id, v_now, v_running, p_wanted - cardinality(v_claimed), v_lanes[v_first : v_last], v_limits, v_fair,
                    p_wait => v_claimed = '{}'
                );
                v_first := v_last + 1;
                continue;
            end if;

            exit when v_next.lanes is null;
            v_ids := '{}';
            v_read := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass);
            v_with_jobs := array(
                select range
                from unnest(v_next.lanes) as range
                where exists (
                    select
                    from treadle.lane_jobs(range.lane, range.start) as job
                    where job.run_at <= v_now
                )
            );
            if pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) > v_read + c_dead then
                perform treadle.raise_floors(v_now, v_running, v_next.lanes);
            end if;
            if v_with_jobs <> '{}' then
                v_ids := treadle.claim_lanes(
                    p_worker_id, v_now, v_running, p_wanted - cardinality(v_claimed), v_with_jobs, v_limits, v_fair,
                    p_wait => v_claimed = '{}'
                );
                v_claimed := v_claimed || v_ids;
                exit when cardinality(v_claimed) = p_wanted;
            end if;
            if v_ids = '{}' and v_safe.xid is null and v_emptied < c_emptied then
                v_emptied := v_emptied + cardinality(v_next.ids);
                perform treadle.make_dormant(v_next.ids, v_now);
            end if;
            -- If they have few jobs each, all others are taken together.
            v_next := treadle.lanes_in_turn(
                p_job_types, p_queues, v_safe, case when cardinality(v_ids) > v_few then v_few else c_lanes end,
                v_next.level, v_next.first, v_next.turn, v_next.step, v_next.place
            );
        end loop;

        -- What looks like a lock may be something else: try all rows.
        exit when v_claimed <> '{}' or v_running = '{}';
        v_running := '{}';
    end loop;

    return v_claimed;
end
$$;
