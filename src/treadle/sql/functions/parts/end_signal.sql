-- Completes a job that waits for a signal.
create or replace function treadle.end_signal(p_id uuid, p_value jsonb) returns void
language plpgsql
as $$
begin
    update treadle.jobs as job
    set status = 'completed',
        progress = 100,
        completed_at = clock_timestamp(),
        finished_at = clock_timestamp(),
        expires_at = null,
        current_stage = null,
        result = nullif(p_value, 'null')
    where job.id = p_id;

    perform treadle.announce(array[p_id]);
end
$$;
