-- A part of count_depths(): counts again what may have changed in one lane, or among the jobs of a finished status.
-- Returns how many it counted.
--
-- The jobs are divided by time into segments of up to c_size; treadle.depths has the number of each, and the depth is
-- their sum. Jobs leave at the beginning, and arrive at the present or at the end. So the first segment, the last one
-- and that of the present are counted every time, and of the others the one that was counted longest ago, if that is
-- more than c_again ago.
--
-- Counting stops after p_limit jobs, or at p_until if at least p_least were counted, and continues with the next call.
-- Until all were counted once, the number of the last segment is null.
create or replace function treadle.count_segments(
    p_status varchar,
    p_lane treadle.lane,
    p_start timestamptz, -- the floor of the lane
    p_now timestamptz,
    p_limit bigint,
    p_until timestamptz,
    p_least bigint
) returns bigint
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    c_size constant int := 10000;
    c_again constant interval := '10 seconds';
    v_left bigint := p_limit;
    v_over boolean := false;
    v_segment record;
    v_from timestamptz;
    v_begin timestamptz;
    v_next timestamptz;
    v_found record;
begin
    -- Those that are below the floor completely.
    delete from treadle.depths as kept
    where kept.status = p_status
      and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, p_lane)
      and kept.starts_at < (
            select max(other.starts_at)
            from treadle.depths as other
            where other.status = p_status
              and treadle.is_in_lane(other.queue, other.job_type, other.priority, other.partition, p_lane)
              and other.starts_at <= p_start
      );

    for v_segment in
        select segment.*
        from (
            select
                kept.starts_at,
                coalesce(lead(kept.starts_at) over following, 'infinity') as ends_at,
                kept.jobs,
                kept.counted_at,
                row_number() over following = 1 as is_first,
                row_number() over (order by kept.counted_at, kept.starts_at) = 1 as is_oldest,
                bool_or(kept.jobs is null) over () as is_new
            from (
                select kept.starts_at, kept.jobs, kept.counted_at
                from treadle.depths as kept
                where kept.status = p_status
                  and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, p_lane)
                union all
                select '-infinity', null, null
                where not exists (
                    select
                    from treadle.depths as kept
                    where kept.status = p_status
                      and treadle.is_in_lane(kept.queue, kept.job_type, kept.priority, kept.partition, p_lane)
                )
            ) as kept
            window following as (order by kept.starts_at)
        ) as segment
        where case
            when segment.is_new then segment.jobs is null
            else segment.is_first
                or segment.is_oldest and segment.counted_at < p_now - c_again
                or segment.counted_at = '-infinity'
                or segment.ends_at > p_now and segment.starts_at <= p_now
                or segment.ends_at = 'infinity'
        end
        order by segment.is_oldest, segment.starts_at
    loop
        v_from := v_segment.starts_at;
        -- Below the first segment there may be jobs that were committed late, or whose time was written by hand. Those
        -- that are finished are looked for once a minute, because of the index entries of those that were pruned.
        v_begin := case
            when not v_segment.is_first then v_from
            when p_status = 'pending' then p_start
            when date_trunc('minute', v_segment.counted_at) = date_trunc('minute', p_now) then v_from
            else '-infinity'
        end;
        while v_from is not null loop
            v_found := treadle.count_span(p_status, p_lane, v_begin, v_segment.ends_at, c_size);
            exit when v_found.jobs = 0 and v_from > v_segment.starts_at;
            v_next := v_found.last + interval '1 microsecond';
            if v_found.jobs < c_size or v_next >= v_segment.ends_at then
                v_next := null;
            end if;
            v_left := v_left - v_found.jobs;
            -- The first one always, to show when these were counted: it decides what is counted next.
            perform treadle.keep_depth(
                p_status, p_lane, v_from, v_found.jobs, p_now, v_segment.is_first and v_from = v_segment.starts_at
            );

            v_from := v_next;
            v_begin := v_next;
            v_over := v_left <= 0 or clock_timestamp() > p_until and p_limit - v_left >= p_least;
            if v_over and v_from is not null then
                -- The rest of the segment is counted next time.
                perform treadle.keep_depth(
                    p_status, p_lane, v_from, case when v_segment.jobs is not null then 0 end, '-infinity', false
                );
                exit;
            end if;
        end loop;
        exit when v_over;
    end loop;
    return p_limit - v_left;
end
$$;
