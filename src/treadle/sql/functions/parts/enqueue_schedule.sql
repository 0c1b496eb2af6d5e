-- Enqueues the jobs of a schedule for these times, which come in order, and notes the times that were missed. Returns
-- the number of jobs. A time is not enqueued again, not even after a dump was restored or the server's clock was set
-- back: the primary key of occurrences does not allow it.
create or replace function treadle.enqueue_schedule(
    p_schedule treadle.schedules,
    p_times timestamptz[],
    p_missed timestamptz[]
) returns int
language plpgsql
as $$
declare
    v_time timestamptz;
    v_before timestamptz := p_schedule.last_at;
    v_last_job uuid := p_schedule.last_job;
    v_count int := 0;
    v_added record;
    v_options treadle.enqueue_options := jsonb_populate_record(
        null::treadle.enqueue_options,
        coalesce(p_schedule.options, '{}') || jsonb_build_object(
            'priority', p_schedule.priority,
            'queue', p_schedule.queue,
            'max_attempts', p_schedule.max_attempts,
            'key', coalesce(p_schedule.key, case when p_schedule.overlap = 'wait' then 'schedule ' || p_schedule.name end)
        )
    );
begin
    insert into treadle.occurrences (schedule, scheduled_for, skipped)
    select p_schedule.name, missed, 'missed'
    from unnest(p_missed) as missed
    on conflict do nothing;

    foreach v_time in array p_times loop
        continue when exists (
            select
            from treadle.occurrences as known
            where known.schedule = p_schedule.name
              and known.scheduled_for = v_time
        );

        if p_schedule.overlap = 'skip' and exists (
            select
            from treadle.jobs as job
            where job.id = v_last_job
              and job.status not in ('completed', 'failed', 'cancelled')
        ) then
            insert into treadle.occurrences (schedule, scheduled_for, skipped)
            values (p_schedule.name, v_time, 'overlap');
            continue;
        end if;

        -- First the transaction id, then the clock: the tick relies on that order (see tick.sql).
        perform pg_current_xact_id();
        v_options.run_at := greatest(v_time + random() * p_schedule.jitter, clock_timestamp())
            + coalesce(v_options.delay, interval '0');
        v_options.origin := jsonb_build_object('schedule', p_schedule.name, 'for', v_time, 'before', v_before);
        select added.id, added.is_new
        into v_added
        from treadle.add_jobs(p_schedule.job_type, array[p_schedule.data::text], v_options) as added;
        if v_added.is_new is not true then
            insert into treadle.occurrences (schedule, scheduled_for, skipped)
            values (p_schedule.name, v_time, 'unique');
            continue;
        end if;

        insert into treadle.occurrences (schedule, scheduled_for, job_id)
        values (p_schedule.name, v_time, v_added.id);
        v_last_job := v_added.id;
        v_before := v_time;
        v_count := v_count + 1;
    end loop;

    if v_count > 0 then
        update treadle.schedules as known
        set last_at = v_before,
            last_job = v_last_job
        where known.name = p_schedule.name;
    end if;
    return v_count;
end
$$;
