-- Lets jobs wait for their signals: jobs whose rows are locked, and that no longer wait for other jobs. A signal
-- that was sent before is in their checkpoint. From now on the time counts.
create or replace function treadle.begin_signals(p_ids uuid[]) returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    update treadle.jobs as job
    set holds = job.holds & ~treadle.blocked_by_jobs() | treadle.blocked_by_signal(),
        started_at = v_now,
        current_stage = left('waiting for the signal ' || (job.data ->> 'signal'), 100),
        expires_at = v_now + (job.data ->> 'timeout')::double precision * interval '1 second'
    where job.id = any (p_ids);

    insert into treadle.expiries (look_at, job_id)
    select job.expires_at, job.id
    from treadle.jobs as job
    where job.id = any (p_ids)
      and job.expires_at is not null;

    perform treadle.end_signal(job.id, job.checkpoint)
    from treadle.jobs as job
    where job.id = any (p_ids)
      and job.checkpoint is not null;
end
$$;
