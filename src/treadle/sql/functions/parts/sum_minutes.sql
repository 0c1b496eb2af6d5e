-- For count_minutes(): sums the minutes that are complete in treadle.spans, for charts of hours and days. p_reached:
-- nothing will be added to minutes before this time.
--
-- Spans of 300 s are summed from minutes, longer ones from the next shorter ones, at most an hour of minutes in a call.
-- Who reads takes spans before meter.summed_to and minutes from then on.
create or replace function treadle.sum_minutes(p_reached timestamptz) returns void
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_steps constant int[] := array[60, 300, 900, 7200];
    v_kept constant interval[] := array[null, interval '7 hours', interval '25 hours', interval '8 days'];
    v_epoch constant timestamptz := 'epoch';
    v_summed timestamptz;
    v_to timestamptz;
    v_span interval;
    v_begin timestamptz;
    v_end timestamptz;
begin
    select meter.summed_to into v_summed from treadle.meter as meter;
    if v_summed is null or v_summed > p_reached then
        -- From the beginning of a longest span, so that all of them are complete.
        select date_bin('7200 seconds', least(min(minutes.minute), p_reached), v_epoch)
        into v_summed
        from treadle.minutes as minutes;
    end if;
    v_to := least(date_bin('300 seconds', p_reached, v_epoch), v_summed + interval '1 hour');
    if v_to <= v_summed then
        return;
    end if;

    for v_nth in 2 .. cardinality(v_steps) loop
        v_span := make_interval(secs => v_steps[v_nth]);
        v_begin := date_bin(v_span, v_summed, v_epoch);
        v_end := date_bin(v_span, v_to, v_epoch);
        continue when v_begin >= v_end;

        -- Those that were summed before the clock was set back; and old ones, if the next longer span is complete.
        delete from treadle.spans as span
        where span.step = v_steps[v_nth]
          and (
                span.at >= v_begin and span.at < v_end
                or span.at < least(p_reached - v_kept[v_nth], v_to - interval '4 hours')
          );

        insert into treadle.spans (
            step, job_type, queue, at, completed, failed, cancelled, errors, waited, waited_most, ran, ran_most,
            waited_counts, ran_counts, slowest_id
        )
        select
            v_steps[v_nth],
            found.job_type,
            found.queue,
            date_bin(v_span, found.at, v_epoch),
            sum(found.completed),
            sum(found.failed),
            sum(found.cancelled),
            sum(found.errors),
            sum(found.waited),
            max(found.waited_most),
            sum(found.ran),
            max(found.ran_most),
            treadle.sum_counts(jsonb_agg(found.waited_counts)),
            treadle.sum_counts(jsonb_agg(found.ran_counts)),
            (array_agg(found.slowest_id order by found.ran_most desc))[1]
        from (
            select
                minutes.minute as at, minutes.job_type, minutes.queue, minutes.completed, minutes.failed,
                minutes.cancelled, minutes.errors, minutes.waited, minutes.waited_most, minutes.ran, minutes.ran_most,
                minutes.waited_counts, minutes.ran_counts, minutes.slowest_id
            from treadle.minutes as minutes
            where v_nth = 2
              and minutes.minute >= v_begin
              and minutes.minute < v_end
            union all
            select
                span.at, span.job_type, span.queue, span.completed, span.failed, span.cancelled, span.errors,
                span.waited, span.waited_most, span.ran, span.ran_most, span.waited_counts, span.ran_counts,
                span.slowest_id
            from treadle.spans as span
            where v_nth > 2
              and span.step = v_steps[v_nth - 1]
              and span.at >= v_begin
              and span.at < v_end
        ) as found
        group by 2, 3, 4;
    end loop;
    update treadle.meter set summed_to = v_to;

    insert into treadle.worker_starts (minute, version, workers)
    select date_trunc('minute', worker.started_at), coalesce(worker.version, ''), count(*)
    from treadle.workers as worker
    where worker.lease is not null
      and worker.started_at > p_reached - interval '1 day'
    group by 1, 2
    on conflict (minute, version) do update
    set workers = greatest(worker_starts.workers, excluded.workers);
    delete from treadle.worker_starts as started
    where started.minute < p_reached - interval '8 days';
end
$$;
