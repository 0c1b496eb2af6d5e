create or replace function treadle.retry_job(p_id uuid) returns boolean
language plpgsql
set enable_seqscan = off
as $$
declare
    v_unique boolean := true;
begin
    -- What was completed is done again from its beginning; what failed or was cancelled goes on where it was.
    delete from treadle.steps as step
    using treadle.jobs as job
    where job.id = p_id
      and job.status = 'completed'
      and step.job_id = job.id;

    loop
        begin
            -- One more attempt at least; the lease goes on counting.
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
                -- Whoever revives it wants it to run, also beside the one that took its place.
                unique_key = case
                    when v_unique and not exists (
                        select
                        from treadle.jobs as other
                        where other.unique_key = job.unique_key
                          and other.job_type = job.job_type
                          and other.status in ('pending', 'claimed', 'running')
                    ) then job.unique_key
                end,
                result = null
            where job.id = p_id
              and job.status in ('completed', 'failed', 'cancelled');
            return found;
        exception when unique_violation then
            -- Its successor was being added, and could not be seen.
            if not v_unique then
                raise;
            end if;
            v_unique := false;
        end;
    end loop;
end
$$;

comment on function treadle.retry_job(uuid) is 'Runs an ended job again, with at least one more attempt. False: it has not ended.';
