-- Counts the jobs of lanes, and of finished statuses, that are too many to be counted whenever somebody looks: see
-- find_depths.sql, count_statuses.sql and, for how, count_segments.sql. Also keeps for each minute how many jobs
-- waited, by queue and type. Returns in how many seconds it is due again.
--
-- Each call takes about p_time, or longer if it has not counted 50,000 jobs by then: a busy server would never get
-- further. Lanes that were counted longest ago come first. The next call is due after ten times as long as this one
-- took.
create or replace function treadle.count_depths(
    p_limit int default 300000,
    p_time interval default '60 milliseconds',
    p_keep interval default '7 days'
) returns double precision
language plpgsql
set treadle.plan = index_ranges
as $$
declare
    c_lanes constant int := 1000;
    -- Kept from this depth on, and until it is clearly less.
    c_deep constant int := 20000;
    c_budget constant int := 50000;
    c_least constant int := 50000;
    c_every constant interval := '2 seconds';
    c_idle constant interval := '10 seconds'; -- if there is nothing to count
    c_share constant int := 10;
    c_most constant interval := '10 seconds';
    v_now constant timestamptz := clock_timestamp();
    v_minute constant timestamptz := date_trunc('minute', v_now);
    v_due timestamptz;
    v_lanes treadle.lane[];
    v_starts timestamptz[];
    v_kept bigint[];
    v_found record;
    v_range record;
    v_until timestamptz;
    v_begun boolean := false;
    v_left bigint := p_limit;
begin
    select to_timestamp(clock.last_value / 1000000.0) into v_due from treadle.depth_clock as clock;
    if v_due > v_now and v_due < v_now + c_most then
        return extract(epoch from v_due - v_now);
    end if;
    -- One call at a time, until it commits.
    if not pg_try_advisory_xact_lock(hashtext('treadle depths'), hashoid('treadle.depths'::regclass)) then
        return extract(epoch from c_every);
    end if;
    perform setval('treadle.depth_clock', (extract(epoch from v_now + c_every) * 1000000)::bigint);

    select
        array_agg(known.lane), array_agg(known.start),
        array_agg((
            select count(*)
            from treadle.depths as kept
            where kept.status = 'pending'
              and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, known.lane)
            having count(*) > 0
        ))
    into v_lanes, v_starts, v_kept
    from treadle.lanes_to_display(treadle.safe_tick(pg_current_snapshot()), c_lanes) as known;
    v_found := treadle.count_lanes(v_lanes, v_starts, v_kept, c_budget);

    v_until := clock_timestamp() + p_time;
    for v_range in
        select known.*, kept.is_new
        from (
            select
                'pending' as status,
                row(lane.queue, lane.job_type, lane.priority, lane.partition)::treadle.lane as lane,
                lane.start
            from unnest(v_lanes, v_starts, v_kept, v_found.depths, v_found.counted_to)
                as lane (queue, job_type, priority, partition, start, kept, depth, counted_to)
            where lane.kept > 0
               or lane.depth >= least(c_deep, lane.counted_to)
            union all
            select kind.status, row('', '', 0, '')::treadle.lane, '-infinity'
            from unnest(array['completed', 'failed', 'cancelled']) as kind (status)
            where exists (select from treadle.depths as kept where kept.status = kind.status)
               or (
                    treadle.count_span(kind.status, row('', '', 0, '')::treadle.lane, '-infinity', 'infinity', c_deep)
                  ).jobs >= c_deep
        ) as known
        left join lateral (
            select max(kept.counted_at) as counted_at, coalesce(bool_or(kept.jobs is null), true) as is_new
            from treadle.depths as kept
            where kept.status = known.status
              and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, known.lane)
        ) as kept on true
        order by not kept.is_new, kept.counted_at nulls first
    loop
        -- Those that are counted for the first time do not get all of the time: it takes minutes if there are ten
        -- million.
        continue when v_range.is_new and v_begun and clock_timestamp() > v_until - p_time / 2;
        v_begun := true;
        loop
            v_left := v_left - treadle.count_segments(
                v_range.status, v_range.lane, v_range.start, v_now, v_left,
                case when v_range.is_new then v_until - p_time / 2 else v_until end,
                case when v_range.is_new then c_least / 2 else c_least - (p_limit - v_left) end
            );

            -- If the first segment is empty, the next one is counted, too: many jobs can be pruned at a time.
            delete from treadle.depths as kept
            where kept.status = v_range.status
              and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, v_range.lane)
              and kept.jobs = 0
              and kept.counted_at > '-infinity';
            exit when not found or v_left <= 0 or clock_timestamp() > v_until;
        end loop;

        delete from treadle.depths as kept
        where kept.status = v_range.status
          and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, v_range.lane)
          and exists (
                select
                from treadle.kept_depth(v_range.status, v_range.lane) as known
                where known.jobs < c_deep * 0.8
                  and known.counted_at is not null
          );
        exit when v_left <= 0 or clock_timestamp() > v_until and p_limit - v_left >= c_least;
    end loop;

    if not exists (select from treadle.depth_history as known where known.minute = v_minute)
        and not exists (select from treadle.depths as kept where kept.status = 'pending' and kept.jobs is null)
    then
        insert into treadle.depth_history (minute, queue, job_type, jobs)
        select v_minute, coalesce(waiting.queue, ''), coalesce(waiting.job_type, ''), coalesce(sum(waiting.depth), 0)
        from treadle.find_depths() as waiting
        group by grouping sets ((waiting.queue, waiting.job_type), ())
        having coalesce(sum(waiting.depth), 0) > 0 or grouping(waiting.queue) = 1;

        delete from treadle.depth_history where minute < v_now - p_keep;

        delete from treadle.depths as kept
        where kept.status = 'pending'
          and not exists (
                select
                from treadle.lanes as lane
                where treadle.is_in_lane(
                        lane.queue, lane.job_type, lane.priority, lane.partition,
                        row(kept.queue, kept.job_type, kept.priority, kept.partition)::treadle.lane
                      )
          );
    end if;

    v_due := greatest(
        v_now + case
            when exists (select from treadle.depths as kept where kept.jobs is null) then c_every / 2
            when exists (select from treadle.depths) then c_every
            else c_idle
        end,
        clock_timestamp() + least(c_most, c_share * (clock_timestamp() - v_now))
    );
    perform setval('treadle.depth_clock', (extract(epoch from v_due) * 1000000)::bigint);
    return extract(epoch from v_due - v_now);
end
$$;
