-- Claims up to p_batch_size due jobs of these types (in these queues, or in all): of the highest priority first, then
-- the oldest. Lanes with limits, fairness or aging are left to claim_in_turns().
--
-- Each lane is one bounded range of idx_jobs_claimable that starts at the floor of the lane: other job types, future,
-- finished and blocked jobs and the dead entries below the floor are never visited. Claims at the same time take the
-- next jobs instead of waiting for the same ones. Every row that is locked is taken: another claim would skip it.
--
-- The settings fix the plan: with stale statistics the planner would read the whole table. Since there is only one
-- plan, it is cached.
create or replace function treadle.claim_jobs(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int default 10,
    p_queues varchar[] default null,
    p_known treadle.known_lanes default null -- if the caller has called find_known_lanes()
) returns setof treadle.jobs
language plpgsql
set treadle.plan = cached_index_ranges
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_era constant bigint := treadle.lease_era();
    v_read bigint; -- how many index entries
    v_expected bigint := 500; -- if more were read, the floors have fallen behind
    v_running xid[] := '{}'; -- see running_transactions()
    v_known treadle.known_lanes := p_known;
    v_lanes treadle.lane_range[];
    v_first int := 1;
    v_picked treadle.lane_range[];
    v_shares int[]; -- how many jobs of each
    v_chosen int; -- and of all
    v_places tid[];
    v_keyed boolean;
    v_found int;
    v_left int := p_batch_size;
    v_missed boolean; -- there may be more jobs
    v_ids uuid[];
begin
    if p_batch_size is null or p_batch_size < 1 then
        raise exception 'batch size must be at least 1, got %', coalesce(p_batch_size::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;

    if pg_snapshot_xmin(pg_current_snapshot()) <> pg_snapshot_xmax(pg_current_snapshot()) then
        v_running := treadle.running_transactions();
    end if;
    if v_known.limited is null then
        v_known := treadle.find_known_lanes(p_job_types, p_queues);
    end if;
    v_lanes := case when not v_known.limited then v_known.lanes end;
    v_missed := v_lanes is null;
    v_read := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass);

    for v_last in 1 .. coalesce(cardinality(v_lanes), 0) loop
        continue when ((v_lanes[v_last + 1]).lane).priority = ((v_lanes[v_first]).lane).priority;

        -- Choose.
        v_picked := v_lanes[v_first : v_last];
        v_shares := array[v_left];
        if v_first < v_last then
            select oldest.picked, oldest.shares, oldest.jobs
            into v_picked, v_shares, v_chosen
            from treadle.oldest_of_lanes(v_picked, v_now, v_left, treadle.recent_lockers()) as oldest;
        end if;

        -- Lock.
        select array_agg(picked.place), bool_or(picked.keyed)
        into v_places, v_keyed
        from (
            select job.place, job.keyed
            from unnest(v_picked, v_shares) as pick (lane, start, jobs)
            cross join lateral (
                select job.ctid as place, job.key is not null as keyed
                from treadle.jobs as job
                where treadle.is_in_lane(job.queue, job.job_type, job.priority, job.partition, pick.lane)
                  and job.run_at >= pick.start
                  and job.run_at <= v_now
                  and treadle.is_claimable(job.status, job.holds, job.attempts, job.max_attempts)
                  and not job.xmax = any (v_running)
                  and (job.key is null or treadle.is_head_of_key(job.key, job.id))
                order by job.run_at
                limit pick.jobs
                for no key update skip locked
            ) as job
            limit v_left
        ) as picked;

        -- Mark.
        v_found := 0;
        if v_keyed then
            return query select * from treadle.mark_claimed(p_worker_id, v_now, v_places, true);
            get diagnostics v_found = row_count;
        elsif v_places is not null then
            return query
            with claimed as (
                update treadle.jobs as job
                set status = 'claimed',
                    worker_id = p_worker_id,
                    claimed_at = v_now,
                    started_at = null,
                    seen_at = null,
                    attempts = job.attempts + 1,
                    lease = greatest(job.lease, v_era) + 1,
                    unique_key = case when job.unique_while is null then job.unique_key end,
                    expires_at = null
                where job.ctid = any (v_places)
                  and (job.expires_at <= v_now) is not true
                returning job.*
            )
            select * from claimed order by claimed.run_at, claimed.id;
            get diagnostics v_found = row_count;
        end if;
        v_expected := v_expected + case when v_first = v_last then 1.5 * v_found else 4 * v_left end;
        v_left := v_left - v_found;
        exit when v_left = 0;

        -- Others were faster, or some had expired.
        v_missed := v_first < v_last and v_found < v_chosen
            or v_found < cardinality(v_places) and not v_keyed;
        exit when v_missed;
        v_first := v_last + 1;
    end loop;

    v_read := pg_stat_get_xact_tuples_returned('treadle.idx_jobs_claimable'::regclass) - v_read;
    if v_read > v_expected then
        perform treadle.raise_floors(v_now, v_running, v_lanes);
    end if;

    -- What looks like a lock may be something else.
    if v_missed or v_left = p_batch_size and v_read > 0 then
        v_ids := treadle.claim_in_turns(p_worker_id, p_job_types, v_left, p_queues);
        return query
        select job.*
        from treadle.jobs as job
        where job.id = any (v_ids)
        order by job.priority desc, job.run_at, job.id;
    end if;
end
$$;
