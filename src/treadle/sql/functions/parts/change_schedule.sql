-- Writes the definition of a schedule. Its next time is computed anew, from now on, if its times have changed or
-- p_keep is false.
create or replace function treadle.change_schedule(
    p_old treadle.schedules,
    p_new treadle.schedules,
    p_keep boolean default true
) returns void
language plpgsql
as $$
begin
    update treadle.schedules as known
    set job_type = p_new.job_type,
        data = p_new.data,
        priority = p_new.priority,
        queue = p_new.queue,
        max_attempts = p_new.max_attempts,
        key = p_new.key,
        options = p_new.options,
        expression = p_new.expression,
        timezone = p_new.timezone,
        clocks_forward = p_new.clocks_forward,
        clocks_back = p_new.clocks_back,
        missed = p_new.missed,
        missed_limit = p_new.missed_limit,
        overlap = p_new.overlap,
        jitter = p_new.jitter,
        starts_at = p_new.starts_at,
        ends_at = p_new.ends_at,
        next_at = case
            when p_keep
                and row(
                    p_old.expression, p_old.timezone, p_old.clocks_forward, p_old.clocks_back, p_old.starts_at, p_old.ends_at
                ) is not distinct from row(
                    p_new.expression, p_new.timezone, p_new.clocks_forward, p_new.clocks_back, p_new.starts_at, p_new.ends_at
                )
                then p_old.next_at
        end,
        error = null,
        retry_at = null,
        changed_at = clock_timestamp()
    where known.name = p_old.name;
end
$$;
