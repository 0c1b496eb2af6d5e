-- What finished since the beginning of the window, by type, queue and time: this text is put in front of
-- get_throughput.sql and others, with the clause for the type and the queue in place of the comments. Spans that are
-- not complete yet are read as shorter ones, and at last as minutes: see sum_minutes(). The beginning of the window is
-- an expression, not a subquery: the planner estimates its rows. clock_timestamp() is volatile, so no index could be
-- used for it.
with bounds as materialized (
    select
        clock_timestamp() as now,
        meter.reached,
        date_bin('7200 seconds', meter.summed_to, 'epoch'::timestamptz) as to_7200,
        date_bin('900 seconds', meter.summed_to, 'epoch'::timestamptz) as to_900,
        date_bin('300 seconds', meter.summed_to, 'epoch'::timestamptz) as to_300
    from (select reached, coalesce(summed_to, 'epoch'::timestamptz) as summed_to from treadle.meter limit 1) as meter
),
finished as (
    select
        span.at, span.job_type, span.queue, span.completed, span.failed, span.cancelled, span.errors, span.waited,
        span.waited_most, span.ran, span.ran_most, span.waited_counts, span.ran_counts, span.slowest_id
    from bounds
    cross join lateral (
        values
            (7200, '-infinity'::timestamptz, bounds.to_7200),
            (900, case when %(step)s > 900 then bounds.to_7200 else '-infinity' end, bounds.to_900),
            (300, case when %(step)s > 300 then bounds.to_900 else '-infinity' end, bounds.to_300)
    ) as part (step, since, until)
    cross join lateral (
        -- One step after the other, behind offset 0: as one join, the planner would read all of the table.
        select span.*
        from treadle.spans as span
        where span.step = part.step
          /* of the span */
          and span.at >= date_bin(make_interval(secs => %(step)s), statement_timestamp() - make_interval(secs => %(window)s), 'epoch'::timestamptz)
          and span.at >= part.since
          and span.at < part.until
        offset 0
    ) as span
    where part.step <= %(step)s
    union all
    select
        span.minute, span.job_type, span.queue, span.completed, span.failed, span.cancelled, span.errors, span.waited,
        span.waited_most, span.ran, span.ran_most, span.waited_counts, span.ran_counts, span.slowest_id
    from treadle.minutes as span
    where span.minute >= date_bin(make_interval(secs => %(step)s), statement_timestamp() - make_interval(secs => %(window)s), 'epoch'::timestamptz)
      and span.minute >= (select case when %(step)s > 60 then to_300 else '-infinity' end from bounds)
      /* of the span */
)
