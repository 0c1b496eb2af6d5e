-- Cancels jobs that have expired. Their rows are locked by the caller.
create or replace function treadle.cancel_expired(p_ids uuid[]) returns void
language plpgsql
set enable_seqscan = off
as $$
begin
    update treadle.jobs as job
    set status = 'cancelled',
        finished_at = clock_timestamp(),
        last_error = 'expired: no worker claimed it before ' || to_char(job.expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    where job.id = any (p_ids);

    perform treadle.announce(p_ids);
end
$$;

comment on function treadle.cancel_expired(uuid[]) is 'Cancels jobs that have expired.';
