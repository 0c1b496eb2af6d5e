-- Enqueues the jobs of schedules that are due, as a worker has computed them: an array of objects with
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
begin
    for v_due in select each.value from jsonb_array_elements(p_due) as each loop
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

comment on function treadle.enqueue_occurrences(jsonb)
    is 'Enqueues the jobs of schedules that are due. Returns what was done for which schedule.';
