-- Ends jobs whose time is over: they are cancelled; one that waits for a signal fails. Their rows are locked by the
-- caller.
create or replace function treadle.cancel_expired(p_ids uuid[]) returns void
language plpgsql
as $$
begin
    -- A signal that did not come.
    update treadle.jobs as job
    set status = 'failed',
        finished_at = clock_timestamp(),
        last_error = 'the signal ' || left(job.data ->> 'signal', 100) || ' did not come before '
            || to_char(job.expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    where job.id = any (p_ids)
      and job.flags & treadle.flag_signal() <> 0;

    -- A workflow with a deadline.
    perform treadle.cancel_job(
        job.id,
        'the deadline, ' || to_char(job.expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC, has passed'
    )
    from (
        select job.id, job.expires_at
        from treadle.jobs as job
        where job.id = any (p_ids)
          and job.flags & treadle.flag_workflow() <> 0
        offset 0
    ) as job;

    update treadle.jobs as job
    set status = 'cancelled',
        finished_at = clock_timestamp(),
        last_error = 'expired: no worker claimed it before '
            || to_char(job.expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    where job.id = any (p_ids)
      and job.flags & (treadle.flag_signal() | treadle.flag_workflow()) = 0;

    perform treadle.announce(p_ids);
end
$$;
