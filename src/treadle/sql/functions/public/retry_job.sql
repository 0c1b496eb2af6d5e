-- Runs a finished job again, with at least one more attempt. Returns false if it has not finished.
create or replace function treadle.retry_job(p_id uuid) returns boolean
language plpgsql
as $$
declare
    v_unique boolean := true;
begin
    -- A completed job starts again from the beginning; one that failed or was cancelled continues after its last step.
    delete from treadle.steps as step
    using treadle.jobs as job
    where job.id = p_id
      and job.status = 'completed'
      and step.job_id = job.id;

    loop
        begin
            -- At least one more attempt. The lease number is not reset.
            update treadle.jobs as job
            set status = 'pending',
                max_attempts = greatest(job.max_attempts, job.attempts + 1),
                run_at = clock_timestamp(),
                worker_id = null,
                claimed_at = null,
                started_at = null,
                completed_at = null,
                finished_at = null,
                progress = 0,
                current_stage = null,
                pace = null,
                checkpoint = case when job.status <> 'completed' then job.checkpoint end,
                -- The job runs even if another one has its unique key by now; then it loses the key.
                unique_key = case
                    when v_unique and not exists (
                        select
                        from treadle.jobs as other
                        where other.unique_key = job.unique_key
                          and other.job_type = job.job_type
                          and other.status in ('pending', 'claimed', 'running')
                    ) then job.unique_key
                end,
                expires_at = null,
                result = null
            where job.id = p_id
              and job.status in ('completed', 'failed', 'cancelled');
            return found;
        exception when unique_violation then
            -- The other job was just being added and was not visible yet.
            if not v_unique then
                raise;
            end if;
            v_unique := false;
        end;
    end loop;
end
$$;
