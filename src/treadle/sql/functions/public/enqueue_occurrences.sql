-- Enqueues the jobs of schedules that are due, as a worker has computed them, and returns what was done for which
-- schedule.
--
-- p_due is an array of objects with
--
--   name      the schedule
--   expected  its next_at when the worker read it, or null
--   times     an array of the times to enqueue, oldest first
--   missed    an array of the times to leave out
--   next      the time after those, or null if there is none
--   error     instead of times and next: why they cannot be computed
--
-- Several workers may do this at once: whoever finds another next_at than expected was too late, and does nothing. Each
-- schedule stands for itself: an error is noted, the others continue, and it is tried again after some seconds.
--
-- Usually each has one time, and one statement enqueues them all: 1.6 ms of CPU for ten, instead of 7.5 ms one by one.
-- What is left, or all of them if that fails, is enqueued one by one.
create or replace function treadle.enqueue_occurrences(p_due jsonb)
returns table (name varchar, enqueued int, error text)
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    c_retry constant interval := '5 seconds';
    v_due jsonb;
    v_known treadle.schedules;
    v_count int;
    v_error text;
    v_now timestamptz;
    v_done varchar[] := '{}';
begin
    -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
    perform pg_current_xact_id();
    v_now := clock_timestamp();
    begin
        with due as materialized (
            select
                known.name, known.job_type, known.priority, known.data, known.queue, known.max_attempts, known.key,
                known.overlap, known.jitter, known.last_at, planned.times[1] as moment, planned.next
            from jsonb_to_recordset(p_due) as planned (
                name varchar, expected timestamptz, times timestamptz[], missed jsonb, next timestamptz, error text
            )
            join treadle.schedules as known on known.name = planned.name
            where known.next_at = planned.expected
              and known.paused_at is null
              and known.overlap <> 'skip'
              and known.options is null
              and planned.error is null
              and cardinality(planned.times) = 1
              and planned.missed = '[]'
              and not exists (
                  select
                  from treadle.occurrences as past
                  where past.schedule = planned.name
                    and past.scheduled_for = planned.times[1]
              )
            for update of known skip locked
        ),
        enqueued as (
            insert into treadle.jobs (job_type, priority, data, created_at, queue, run_at, key, max_attempts, origin)
            select
                due.job_type,
                due.priority,
                due.data,
                v_now,
                due.queue,
                -- A microsecond apart, as in enqueue_jobs.
                greatest(due.moment + random() * due.jitter, v_now - row_number() over () * interval '1 microsecond'),
                coalesce(due.key, case when due.overlap = 'wait' then 'schedule ' || due.name end),
                due.max_attempts,
                jsonb_build_object('schedule', due.name, 'for', due.moment, 'before', due.last_at)
            from due
            returning id, origin ->> 'schedule' as schedule
        ),
        noted as (
            insert into treadle.occurrences (schedule, scheduled_for, job_id)
            select due.name, due.moment, enqueued.id
            from due
            join enqueued on enqueued.schedule = due.name
        ),
        changed as (
            update treadle.schedules as known
            set last_at = due.moment,
                last_job = enqueued.id,
                next_at = coalesce(due.next, 'infinity'),
                error = null,
                retry_at = null
            from due
            join enqueued on enqueued.schedule = due.name
            where known.name = due.name
            returning known.name
        )
        select coalesce(array_agg(changed.name), '{}') into v_done
        from changed;
    exception when others then
        v_done := '{}';
    end;
    return query select done, 1, null::text from unnest(v_done) as done;

    for v_due in
        select each.value
        from jsonb_array_elements(p_due) as each
        where each.value ->> 'name' <> all (v_done)
    loop
        select known.* into v_known
        from treadle.schedules as known
        where known.name = v_due ->> 'name'
          and known.next_at is not distinct from (v_due ->> 'expected')::timestamptz
          and known.paused_at is null
        for update skip locked;
        continue when not found;

        v_error := v_due ->> 'error';
        v_count := 0;
        if v_error is null then
            begin
                v_count := treadle.enqueue_schedule(
                    v_known,
                    array(select each.value::timestamptz from jsonb_array_elements_text(v_due -> 'times') as each),
                    array(select each.value::timestamptz from jsonb_array_elements_text(v_due -> 'missed') as each)
                );
                update treadle.schedules as known
                set next_at = coalesce((v_due ->> 'next')::timestamptz, 'infinity'),
                    error = null,
                    retry_at = null
                where known.name = v_known.name;
            exception when others then
                v_error := sqlerrm;
            end;
        end if;
        if v_error is not null then
            update treadle.schedules as known
            set error = v_error,
                retry_at = clock_timestamp() + c_retry
            where known.name = v_known.name;
        end if;
        return query select v_known.name, v_count, v_error;
    end loop;
end
$$;
