-- Saves the checkpoint of a job for its next attempt. Returns false if the claim is lost.
create or replace function treadle.save_checkpoint(
    p_id uuid,
    p_checkpoint jsonb,
    p_lease bigint,
    p_worker_id varchar
) returns boolean
language plpgsql
as $$
begin
    update treadle.jobs as job
    set checkpoint = p_checkpoint,
        seen_at = clock_timestamp()
    where job.id = p_id
      and job.status in ('claimed', 'running')
      and job.lease = p_lease
      and job.worker_id = p_worker_id;
    return found;
end
$$;
