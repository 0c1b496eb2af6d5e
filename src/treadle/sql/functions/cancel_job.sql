create or replace function treadle.cancel_job(p_id uuid, p_reason text default null) returns boolean
language plpgsql
set enable_seqscan = off
as $$
begin
    update treadle.jobs as job
    set status = 'cancelled',
        finished_at = clock_timestamp(),
        last_error = coalesce(p_reason, job.last_error)
    where job.id = p_id
      and job.status in ('pending', 'claimed', 'running');
    return found;
end
$$;

comment on function treadle.cancel_job(uuid, text) is 'Ends a job that has not ended yet; its holder, if it has one, loses the lease. False: it has ended already.';
